"""The cache on disk: entries come back, damaged ones are dropped, and an unwritable folder is a warning."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import stepwell.runtime.cache.cache as cache_module
from stepwell.runtime.cache.cache import Cache, default_cache
from stepwell.runtime.memory import is_splat
from stepwell.support.errors import InputError, SlowWarning

KEY = "ab12"


def entry_path(cache: Cache) -> Path:
    return cache.folder / "kernels" / KEY[:2] / KEY


def test_get_returns_what_put_stored(tmp_path):
    cache = Cache(tmp_path)
    assert cache.get("kernels", KEY) is None
    cache.put("kernels", KEY, b"object code")
    assert bytes(cache.get("kernels", KEY) or b"") == b"object code"
    cache.put("kernels", KEY, [b"in ", b"pieces"])
    assert bytes(Cache(tmp_path).get("kernels", KEY) or b"") == b"in pieces"
    cache.put("kernels", "empty", b"")
    assert cache.get("kernels", "empty") == b""


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 5), (0, 4)])
def test_arrays_come_back_mapped_and_aligned(tmp_path, dtype, shape):
    cache = Cache(tmp_path)
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    key = cache.put_array("parameters", array)
    back = cache.get_array("parameters", key)
    assert back is not None and back.dtype == array.dtype and not back.flags.writeable
    np.testing.assert_array_equal(back, array)
    assert back.size == 0 or back.ctypes.data % 64 == 0


def test_splats_are_kept_as_one_element(tmp_path):
    cache = Cache(tmp_path)
    key = cache.put_array("parameters", np.broadcast_to(np.float32(2.5), (1000, 1000)))
    assert next(cache.entries()).bytes < 300
    back = cache.get_array("parameters", key)
    assert back is not None and is_splat(back) and back.shape == (1000, 1000) and back[7, 7] == 2.5


def test_equal_arrays_are_kept_once_and_others_apart(tmp_path):
    cache = Cache(tmp_path)
    array = np.arange(6, dtype=np.float32)
    key = cache.put_array("parameters", array)
    path = cache.folder / "parameters" / key[:2] / key
    written = path.stat().st_ino
    assert cache.put_array("parameters", array.copy()) == key and path.stat().st_ino == written
    assert (
        len({key, *(cache.put_array("parameters", item) for item in (array.reshape(2, 3), array.view(np.int32)))}) == 3
    )


@pytest.mark.parametrize("place", [0, 9, 20, 64, -1])
def test_damaged_entries_are_dropped(tmp_path, place):
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, b"object code")
    image = bytearray(entry_path(cache).read_bytes())
    image[place] ^= 1
    entry_path(cache).write_bytes(image)
    assert cache.get("kernels", KEY) is None
    assert not entry_path(cache).exists()


def test_truncated_entries_are_dropped(tmp_path):
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, b"object code")
    for size in (70, 10, 0):
        os.truncate(entry_path(cache), size)
        assert cache.get("kernels", KEY) is None
        cache.put("kernels", KEY, b"object code")


def test_valid_data_under_another_key_is_dropped(tmp_path):
    """Two swapped files were once taken for each other, which gave a traceback or wrong code."""
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, b"object code")
    cache.put("kernels", "other", b"some other code")
    (tmp_path / "programs" / KEY[:2]).mkdir(parents=True)
    shutil.copy(entry_path(cache), tmp_path / "programs" / KEY[:2] / KEY)
    os.replace(tmp_path / "kernels" / "ot" / "other", entry_path(cache))
    assert cache.get("kernels", KEY) is None and cache.get("programs", KEY) is None
    assert not list(cache.entries())


def test_sizes_are_checked_before_contents(tmp_path):
    """Reading a sparse file of terabytes takes hours."""
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, b"object code")
    os.truncate(entry_path(cache), 1 << 42)
    assert cache.get("kernels", KEY) is None


def test_pipes_in_the_place_of_entries_are_not_waited_for(tmp_path):
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, b"object code")
    entry_path(cache).unlink()
    os.mkfifo(entry_path(cache))
    with pytest.warns(SlowWarning, match="is not a regular file"):
        assert cache.get("kernels", KEY) is None


def test_a_folder_whose_name_is_too_long(tmp_path):
    cache = Cache(tmp_path / ("a" * 300))
    assert not cache.has("kernels", KEY)
    with pytest.warns(SlowWarning, match="File name too long"):
        cache.put_array("parameters", np.ones(3))


def test_verify_returns_the_dropped_entries(tmp_path):
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, b"object code")
    cache.put("kernels", "other", b"fine")
    os.truncate(entry_path(cache), 70)
    assert [entry.key for entry in cache.verify()] == [KEY]
    assert [entry.key for entry in cache.entries()] == ["other"]
    assert cache.clear() == 1 and not list(cache.entries())


def test_large_entries_are_read_whole_once(tmp_path, monkeypatch):
    checks = []
    monkeypatch.setattr(cache_module, "_LARGE_BYTES", 100)
    monkeypatch.setattr(cache_module, "_is_intact", lambda path, image: checks.append(len(image)) or True)
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, bytes(200))
    assert cache.get("kernels", KEY) == bytes(200) and 264 not in checks
    os.utime(entry_path(cache), ns=(1, 1))
    for _ in range(2):
        assert Cache(tmp_path).get("kernels", KEY) == bytes(200)
    assert checks.count(264) == 1
    cache.verify()
    assert checks.count(264) == 2


def test_large_entries_that_have_changed_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "_LARGE_BYTES", 100)
    cache = Cache(tmp_path)
    cache.put("kernels", KEY, bytes(200))
    image = bytearray(entry_path(cache).read_bytes())
    image[100] ^= 1
    written = entry_path(cache).stat().st_mtime_ns
    entry_path(cache).write_bytes(image)
    os.utime(entry_path(cache), ns=(written, written + 1))
    assert cache.get("kernels", KEY) is None and not entry_path(cache).exists()


@pytest.mark.parametrize("uptime", ["unknown", "another"])
def test_checks_from_before_a_reboot_do_not_count(tmp_path, monkeypatch, uptime):
    monkeypatch.setattr(cache_module, "_LARGE_BYTES", 100)
    boot = tmp_path / "boot"
    monkeypatch.setattr(cache_module, "_BOOT", boot)
    boot.write_bytes(b"first")
    cache = Cache(tmp_path / "cache")
    cache.put("kernels", KEY, bytes(200))
    boot.unlink() if uptime == "unknown" else boot.write_bytes(b"second")
    monkeypatch.setattr(cache_module, "_is_intact", lambda path, image: len(image) != 264)
    assert cache.get("kernels", KEY) is None


def test_least_recently_used_entries_make_room(tmp_path):
    cache = Cache(tmp_path, limit_bytes=10_000)
    for number in range(5):
        cache.put("kernels", f"key{number}", bytes(1900))
        os.utime(cache.folder / "kernels" / "ke" / f"key{number}", (number, number))
    cache.get("kernels", "key0")
    cache.put("kernels", "key5", bytes(1900))
    assert sorted(entry.key for entry in cache.entries()) == ["key0", "key3", "key4", "key5"]


def test_all_processes_together_check_the_size_from_time_to_time(tmp_path, monkeypatch):
    """Listing all entries at every write would take longer than the work that they cache."""
    looked = []
    entries = Cache.entries
    monkeypatch.setattr(Cache, "entries", lambda self: looked.append(self) or entries(self))
    for number in range(64):
        Cache(tmp_path, limit_bytes=1 << 20).put("kernels", f"key{number}", bytes(4000))
    assert len(looked) == 4  # every sixteenth of the limit, which is 16 times 4 KiB


def test_abandoned_files_are_removed(tmp_path):
    cache = Cache(tmp_path, limit_bytes=1000)
    folder = tmp_path / "kernels" / "ab"
    folder.mkdir(parents=True)
    abandoned, running = folder / ".unfinished-1", folder / ".unfinished-2"
    abandoned.write_bytes(b"x")
    running.write_bytes(b"x")
    os.utime(abandoned, (1, 1))
    cache.put("kernels", KEY, b"object code")
    assert not abandoned.exists() and running.exists()
    assert [entry.key for entry in cache.entries()] == [KEY]


def test_a_folder_that_cannot_be_written_warns_once(tmp_path):
    (tmp_path / "file").write_bytes(b"in the way")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="is not used"):
        cache.put("kernels", KEY, b"object code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("kernels", KEY, b"object code")
        assert cache.get("kernels", KEY) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_folder_warns_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        return os.open("/dev/full", os.O_WRONLY), str(tmp_path / "unfinished")

    monkeypatch.setattr("stepwell.runtime.cache.cache.tempfile.mkstemp", full)
    with pytest.warns(UserWarning, match="No space left"):
        Cache(tmp_path).put("kernels", KEY, b"object code")
    assert not list(Cache(tmp_path).entries())


@pytest.mark.parametrize(("kind", "key"), [("..", KEY), ("kernels", "../../x"), ("kernels", "a/b"), ("kernels", "")])
def test_names_that_lead_elsewhere_are_refused(tmp_path, kind, key):
    with pytest.raises(ValueError, match="does not name"):
        Cache(tmp_path).put(kind, key, b"")


_WRITE_AND_READ = """
import sys
from stepwell.runtime.cache.cache import Cache
cache = Cache(sys.argv[1], limit_bytes=200_000)
for number in range(60):
    key = f"key{(number * 7 + int(sys.argv[2])) % 20}"
    data = cache.get("kernels", key)
    assert data is None or bytes(data) == key.encode() * 4000
    cache.put("kernels", key, key.encode() * 4000)
"""


def test_processes_do_not_disturb_each_other(tmp_path):
    processes = [
        subprocess.Popen([sys.executable, "-Werror", "-c", _WRITE_AND_READ, str(tmp_path), str(seed)])
        for seed in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert sum(entry.bytes for entry in Cache(tmp_path).entries()) < 300_000


@pytest.mark.parametrize("text", ["", "nan", "-1", "1.5", "9" * 5000])
def test_negative_sizes_in_the_environment(text, monkeypatch):
    monkeypatch.delenv("STEPWELL_CACHE", raising=False)
    monkeypatch.setenv("STEPWELL_CACHE_MEGABYTES", text)
    with pytest.raises(InputError, match=r"STEPWELL_CACHE_MEGABYTES is '.*', and must be a whole number"):
        default_cache()


def test_environment_variables_configure_the_default_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("STEPWELL_CACHE_MEGABYTES", "3")
    cache = default_cache()
    assert cache is not None and cache.folder == tmp_path and cache.limit_bytes == 3 << 20
    monkeypatch.setenv("STEPWELL_CACHE", "0")
    assert default_cache() is None
