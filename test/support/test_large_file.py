"""Large model files: read on demand, recognised by their state, and refused if they have changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from stepwell.runtime.artefact import store
from stepwell.runtime.cache.cache import Cache
from stepwell.runtime.cache.keys import key_of
from stepwell.support.errors import ArtefactError
from stepwell.support.large_file import LargeFile, contents_of

DATA = bytes(range(256)) * 5000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that was written some time ago."""
    path = tmp_path / "model.onnx"
    path.write_bytes(DATA)
    _settle(path)
    return path


def _settle(path: Path) -> None:
    earlier = time.time() - 60
    os.utime(path, (earlier, earlier))


def test_gives_its_contents(path: Path) -> None:
    file = LargeFile.at(path)
    assert file.read() == DATA
    assert key_of("onnx", file) == key_of("onnx", DATA)


@pytest.mark.parametrize("contents", [DATA + b"1", DATA[::-1]])
def test_changed_files_are_refused(contents: bytes, path: Path) -> None:
    file = LargeFile.at(path)
    path.write_bytes(contents)
    with pytest.raises(ArtefactError, match="has changed since it was compiled"):
        file.read()


def test_missing_files_are_refused(path: Path) -> None:
    file = LargeFile.at(path)
    path.unlink()
    with pytest.raises(ArtefactError, match="cannot be read any more"):
        file.read()


def test_a_file_is_recognised_until_it_changes(path: Path, tmp_path: Path) -> None:
    cache, made = Cache(tmp_path / "cache"), []

    def make() -> str:
        made.append(len(made))
        return f"made {made[-1]}"

    assert store.fingerprint_of_file(cache, LargeFile.at(path), make) == "made 0"
    assert store.fingerprint_of_file(cache, LargeFile.at(path), make) == "made 0"
    path.write_bytes(DATA[::-1])
    _settle(path)
    assert store.fingerprint_of_file(cache, LargeFile.at(path), make) == "made 1"


def test_a_file_that_was_just_written_is_looked_at_again(path: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    path.touch()
    assert store.fingerprint_of_file(cache, LargeFile.at(path), lambda: "first") == "first"
    assert store.fingerprint_of_file(cache, LargeFile.at(path), lambda: "second") == "second"


def test_files_that_are_not_regular_are_not_read(tmp_path):
    """A device has no end, a pipe would block, and a directory is not a file."""
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (Path("/dev/zero"), "Not a regular"),
        (tmp_path / "pipe", "Not a regular"),
        (tmp_path, "direc"),
    ):
        with pytest.raises(OSError, match=message):
            contents_of(path)


def test_files_larger_than_any_model_are_not_read(tmp_path):
    """The file is sparse: it takes no space on the disk, but would in memory."""
    path = tmp_path / "m.onnx"
    with open(path, "wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(OSError, match="no model in one file has more than 2 GiB"):
        LargeFile.at(path)
