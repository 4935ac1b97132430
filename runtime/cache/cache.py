"""The cache on disk: content-addressed, bounded, shared by processes, verified by checksums.

An entry is a file `<folder>/<kind>/<first two of key>/<key>`: a header of 64 bytes (magic, size, SHA-256 of the data,
the first half of the SHA-256 of its name), then the data, so that mapped data is aligned. The key is a hash of
everything the data was made from; the caller computes it. A large file that was found intact is not read again for its
checksum until its times change or the system restarts; an entry of the kind `checked` records that. Each byte of
`<folder>/.written` stands for 4 KiB written since the size of the whole cache was last computed. Files in
`<folder>/locks` are not entries: a process locks one while it compiles an entry (driver/caching/locks.py).

Environment: `STEPWELL_CACHE=0` disables it, `STEPWELL_CACHE_DIR` moves it, `STEPWELL_CACHE_MEGABYTES` bounds it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from ...support import environment
from ...support.errors import SlowWarning
from ...support.warning import warn
from ..memory import is_splat
from ..safetensors import dtype_of

_MAGIC = b"STEPWELL"
_HEADER_BYTES = 64
"""Size of a header: the magic number and the size with 8 bytes each, a digest of 32, and 16 of that of the name."""
_LARGE_BYTES = 256 << 10
"""Minimum size in bytes of files for which a verification is recorded: for smaller ones, the look-up takes longer."""
_CHECKED, _VERIFIED_SECONDS = "checked", 24 * 3600
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNFINISHED = ".unfinished-"
_TALLY, _TALLIED_BYTES = ".written", 4096
"""Name of the tally of written bytes, and the number of bytes that one byte of it stands for."""
_ABANDONED_SECONDS = 3600
"""Age of unfinished files that killed processes have left; no write takes so long."""
_LOCKS = "locks"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{1,200}")
OBSERVERS: list[Callable[[Cache, str, str], object]] = []
"""Called with the cache, the kind and the key of each entry that is read or written."""

_ARRAYS: WeakValueDictionary[tuple[str, int, int], np.ndarray] = WeakValueDictionary()
"""Arrays that are mapped now, by path, device and number of the file."""


@dataclass(frozen=True)
class Entry:
    """A cached file.

    Attributes:
        kind: the kind of data: "kernels", "parameters"...
        key: the key, a hash of what it was made from.
        bytes: the size on disk in bytes.
        used: the time of the last read or write, in seconds since the epoch.
        path: the path of the file.
    """

    kind: str
    key: str
    bytes: int
    used: float
    path: Path


class Cache:
    """Bytes by kind and key, persistent across processes. Safe for threads and for concurrent processes."""

    def __init__(
        self, folder: str | os.PathLike[str], limit_bytes: int = environment.DEFAULT_CACHE_MEGABYTES << 20
    ) -> None:
        """Opens the cache in `folder`, which is created when the first entry is written.

        Args:
            folder: the folder of the entries.
            limit_bytes: the size beyond which the least recently used entries are dropped.
        """
        self.folder = Path(folder)
        self.limit_bytes = limit_bytes
        self._is_broken = False

    def get(self, kind: str, key: str) -> memoryview | None:
        """Returns an entry's data, mapped and read-only; None if it is missing or damaged (and then dropped)."""
        path = self._path(kind, key)
        image, status = self._map(path)
        if status is None:
            return None
        if not self._is_verified(path, status):
            if not _is_intact(path, image):
                self._drop(path)
                return None
            self._touch(path)
            self._record_verified(path, status)
        self._notify(kind, key)
        return image[_HEADER_BYTES:]

    def has(self, kind: str, key: str) -> bool:
        """Returns whether there is an entry, intact or not."""
        return os.path.exists(self._path(kind, key))

    def lock_path(self, kind: str, key: str) -> Path:
        """Returns the file to lock while an entry is compiled; it need not exist."""
        return self.folder / _LOCKS / f"{kind}-{self._path(kind, key).name}"

    def put(self, kind: str, key: str, data: bytes | memoryview | list[bytes | memoryview]) -> None:
        """Stores data, given whole or in pieces. If the folder is not writable, warns once and stores nothing."""
        if not self._is_broken:
            pieces = data if isinstance(data, list) else [data]
            self._keep(self._path(kind, key), pieces, _digest(pieces))
            self._notify(kind, key)

    def get_array(self, kind: str, key: str) -> np.ndarray | None:
        """Returns an array that `put_array` stored: mapped, read-only and aligned; a splat as a broadcast.

        All that use an array at the same time share its mapping: the memory of a process counts each mapping.
        """
        path = self._path(kind, key)
        try:
            status = path.stat()
        except OSError:
            return self._read_array(kind, key)
        place = str(path), status.st_dev, status.st_ino
        found = _ARRAYS.get(place)
        if found is None:
            found = self._read_array(kind, key)
            if found is not None:
                _ARRAYS[place] = found
        else:
            self._notify(kind, key)
        return found

    def _read_array(self, kind: str, key: str) -> np.ndarray | None:
        data = self.get(kind, key)
        if data is None:
            return None
        length = int.from_bytes(data[:8], "little")
        record = json.loads(bytes(data[8 : 8 + length]))
        values = np.frombuffer(data[_padded(8 + length) :], np.uint8).view(dtype_of(record["dtype"]))
        shape = tuple(record["shape"])
        return np.broadcast_to(values[0], shape) if record["splat"] else values.reshape(shape)

    def put_array(self, kind: str, array: np.ndarray) -> str:
        """Stores an array; a broadcast of one element (all strides 0) is stored as that element.

        Returns:
            The key, a hash of contents, type and shape; an array that is stored already is not written again.
        """
        splat = is_splat(array)
        record = {"dtype": array.dtype.name, "shape": list(array.shape), "splat": splat}
        text = json.dumps(record).encode()
        head = (len(text).to_bytes(8, "little") + text).ljust(_padded(8 + len(text)))
        values = array[(slice(0, 1),) * array.ndim] if splat else array
        pieces = [head, np.ascontiguousarray(values).reshape(-1).view(np.uint8).data]
        digest = _digest(pieces)
        path = self._path(kind, digest.hex())
        if os.path.exists(path):  # unlike `Path.exists`, accepts any name
            self._touch(path)
        elif not self._is_broken:
            self._keep(path, pieces, digest)
        self._notify(kind, digest.hex())
        return digest.hex()

    def entries(self) -> Iterator[Entry]:
        """Yields the entries of the cache."""
        for path, status in self._files("*/??/*"):
            if not path.name.startswith(_UNFINISHED):
                yield Entry(path.parent.parent.name, path.name, status.st_size, status.st_mtime, path)

    def verify(self) -> list[Entry]:
        """Reads every entry, drops the damaged ones, and returns them."""
        damaged = []
        for entry in list(self.entries()):
            image, status = self._map(entry.path)
            if status is not None and not _is_intact(entry.path, image):
                self._drop(entry.path)
                damaged.append(entry)
        return damaged

    def clear(self) -> int:
        """Drops every entry; returns their number."""
        return self.shrink(0)

    def shrink(self, limit_bytes: int) -> int:
        """Drops least recently used entries until the rest takes at most `limit_bytes`; returns the number dropped."""
        self._drop_abandoned()
        entries = sorted(self.entries(), key=lambda entry: entry.used)
        total, dropped = sum(entry.bytes for entry in entries), 0
        for entry in entries:
            if total <= limit_bytes:
                break
            self._drop(entry.path)
            total, dropped = total - entry.bytes, dropped + 1
        return dropped

    def _notify(self, kind: str, key: str) -> None:
        for observer in OBSERVERS:
            observer(self, kind, key)

    def _path(self, kind: str, key: str) -> Path:
        if not _NAME.fullmatch(kind) or not _NAME.fullmatch(key):
            raise ValueError(f"'{kind}/{key}' does not name a cache entry")
        return self.folder / kind / key[:2] / key

    def _map(self, path: Path) -> tuple[memoryview, os.stat_result | None]:
        """Returns a file's bytes and status; the status is None if the file does not exist."""
        try:
            with open(path, "rb", opener=_open) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise OSError(errno.EINVAL, f"{path} is not a regular file")
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if status.st_size else b""
                return memoryview(data), status
        except FileNotFoundError:
            return memoryview(b""), None
        except OSError as error:
            self._give_up(error)
            return memoryview(b""), None

    def _is_verified(self, path: Path, status: os.stat_result) -> bool:
        """Returns whether a large file was recently found intact, since the system started, and has not changed."""
        if status.st_size < _LARGE_BYTES or time.time() - status.st_mtime > _VERIFIED_SECONDS:
            return False
        state = _state(path, status)
        return state is not None and self.get(_CHECKED, state) is not None

    def _record_verified(self, path: Path, checked: os.stat_result) -> None:
        """Records that a large file is intact: reading it to verify that is the slowest part of a start."""
        if checked.st_size < _LARGE_BYTES:
            return
        try:
            status = path.stat()
        except FileNotFoundError:  # another process has dropped it
            return
        state = _state(path, status)
        if state is not None and (status.st_dev, status.st_ino) == (checked.st_dev, checked.st_ino):
            self.put(_CHECKED, state, b"")

    def _keep(self, path: Path, pieces: Sequence[bytes | memoryview], digest: bytes) -> None:
        size = sum(memoryview(piece).nbytes for piece in pieces)
        try:
            self._record_verified(path, self._write(path, [_header(path, size, digest), *pieces]))
            self._bound(size)
        except OSError as error:
            self._give_up(error)

    def _write(self, path: Path, pieces: Sequence[bytes | memoryview]) -> os.stat_result:
        """Writes a file atomically, even if other processes write it too; returns its status."""
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.writelines(pieces)
                file.flush()
                status = os.fstat(descriptor)
            os.replace(unfinished, path)
            return status
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise

    def _bound(self, written: int) -> None:
        """Drops least recently used entries, down to nine tenths of the limit, if the cache may have outgrown it.

        Computing the total size takes longer than compiling a small model. So all processes together count the bytes
        written since it was last computed: each appends to one file, whose size is the sum.
        """
        tally = self.folder / _TALLY
        with open(tally, "ab", buffering=0) as file:
            file.write(bytes(written // _TALLIED_BYTES + 1))
            if file.tell() * _TALLIED_BYTES < self.limit_bytes // 16:
                return
            file.truncate(0)
        self._drop_abandoned()
        if sum(entry.bytes for entry in self.entries()) > self.limit_bytes:
            self.shrink(self.limit_bytes * 9 // 10)

    def _drop_abandoned(self) -> None:
        """Drops unfinished files and lock files that killed processes have left."""
        for pattern in (f"*/??/{_UNFINISHED}*", f"{_LOCKS}/*"):
            for path, status in self._files(pattern):
                if time.time() - status.st_mtime > _ABANDONED_SECONDS:
                    self._drop(path)

    def _files(self, pattern: str) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob(pattern):
            try:
                status = path.stat()
            except FileNotFoundError:  # another process has dropped or finished it meanwhile
                continue
            yield path, status

    def _touch(self, path: Path) -> None:
        try:
            os.utime(path)
        except FileNotFoundError:  # another process has dropped it; what is mapped stays
            return
        except OSError as error:
            self._give_up(error)

    def _drop(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if not self._is_broken:
            text = f"the cache in {self.folder} is not used: {error.strerror}: every start compiles again"
            warn(text, SlowWarning)
        self._is_broken = True


def default_folder() -> Path:
    """Returns the default cache folder: `STEPWELL_CACHE_DIR`, or one in the platform's folder for caches."""
    chosen = os.environ.get("STEPWELL_CACHE_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs  # not needed to run artefacts only

    return Path(platformdirs.user_cache_dir("stepwell", appauthor=False))


def is_turned_off() -> bool:
    """Returns whether the environment disables the cache.

    Raises:
        InputError: `STEPWELL_CACHE` is not one of the allowed values.
    """
    return environment.cache() in environment.OFF


def default_cache() -> Cache | None:
    """Returns the cache that the environment configures; None if it is disabled.

    Raises:
        InputError: `STEPWELL_CACHE_MEGABYTES` is not a number of megabytes.
    """
    if is_turned_off():
        return None
    return Cache(default_folder(), environment.cache_megabytes() << 20)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # does not wait if a pipe is in an entry's place


def _digest(pieces: Iterable[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _header(path: Path, size: int, digest: bytes) -> bytes:
    name = hashlib.sha256(f"{path.parent.parent.name}/{path.name}".encode()).digest()
    return _MAGIC + size.to_bytes(8, "little") + digest + name[:16]


def _is_intact(path: Path, image: memoryview) -> bool:
    """Returns whether an entry is intact and was written under its own name."""
    header, data = bytes(image[:_HEADER_BYTES]), image[_HEADER_BYTES:]
    if header != _header(path, len(data), header[16:48]):
        return False  # detected without reading all of the data
    return hashlib.sha256(data).digest() == header[16:48]


def _state(path: Path, status: os.stat_result) -> str | None:
    """Returns a hash that identifies this state of a file; None if the system has no boot id.

    After a crash a file may have the right times but the wrong contents. So checks made before the last boot do not
    count.
    """
    try:
        boot = _BOOT.read_bytes()
    except OSError:
        return None
    marks = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return hashlib.sha256(os.fsencode(path.absolute()) + f" {marks} ".encode() + boot).hexdigest()


def _padded(size: int) -> int:
    return -(-size // _HEADER_BYTES) * _HEADER_BYTES
