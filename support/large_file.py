"""Files too large to be kept in memory for a possible later use."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import ArtefactError

MOST_BYTES = 1 << 31
"""Maximum size of a Protocol Buffers message, hence of an ONNX file; larger weights are in files of their own."""

_CHUNK_BYTES = 1 << 20
"""Bytes that are read at a time: a choice."""
_SETTLED_NS = 2_000_000_000
"""Coarsest resolution of the times of files, in nanoseconds: the two seconds of FAT."""


@dataclass(frozen=True)
class LargeFile:
    """A file that is read when its contents are needed, and rejected if it has changed.

    Attributes:
        path: path of the file.
        size: size in bytes.
        modified: time of the last write, in nanoseconds since the epoch.
        identity: a text that identifies this file in this state.
    """

    path: Path
    size: int
    modified: int
    identity: str

    @staticmethod
    def at(path: Path) -> LargeFile:
        """Returns the file at `path` in its present state.

        Raises:
            OSError: it does not exist, is not a regular file (a pipe cannot be read twice, and a device has no end), or
                is larger than any model.
        """
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"{status.st_size / 2**30:.1f} GiB: no model in one file has more than 2 GiB")
        marks = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return LargeFile(path, status.st_size, status.st_mtime_ns, f"{path.absolute()} {marks}")

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        """Pickles the contents: the file may not exist on the machine that unpickles."""
        return bytes, (self.read(),)

    @property
    def is_settled(self) -> bool:
        """True if any later change of the file would change its times, whose resolution is limited."""
        return time.time_ns() - self.modified > _SETTLED_NS

    def read(self) -> bytes:
        """Returns the contents.

        Raises:
            ArtefactError: the file has changed or no longer exists.
        """
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Yields the contents, a piece at a time.

        Raises:
            ArtefactError: the file has changed or no longer exists.
        """
        try:
            with open(self.path, "rb") as file:
                yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
                status = os.fstat(file.fileno())
        except OSError as error:
            raise ArtefactError(f"{self.path} cannot be read any more: {error.strerror}") from error
        if (status.st_size, status.st_mtime_ns) != (self.size, self.modified):
            raise ArtefactError(f"{self.path} has changed since it was compiled")


def contents_of(path: Path) -> bytes:
    """Returns the contents of a file.

    Raises:
        OSError: it does not exist, or is not a regular file.
    """
    LargeFile.at(path)
    return path.read_bytes()
