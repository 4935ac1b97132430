"""Files too large to keep in memory on the chance that somebody wants them."""

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
"""Protocol Buffers, which ONNX files are, have no more; larger weights are in files of their own."""

_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True)
class LargeFile:
    """A file that is read when its contents are needed, and refused where it is not what it was.

    Attributes:
        path: where it is.
        size: how many bytes it has.
        modified: when it was last written, in nanoseconds since the epoch.
        identity: tells this state of this file from others of it and of other files.
    """

    path: Path
    size: int
    modified: int
    identity: str

    @staticmethod
    def at(path: Path) -> LargeFile:
        """The file at `path` as it is now.

        Raises:
            OSError: there is none, or it is something else: a pipe cannot be read twice, and a device has no end; or no
                model is so large.
        """
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"Of {status.st_size / 2**30:.1f} GiB; no model in one file has more than 2 GiB")
        marks = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return LargeFile(path, status.st_size, status.st_mtime_ns, f"{path.absolute()} {marks}")

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        """Pickles the contents: the file may not be there in the process that unpickles."""
        return bytes, (self.read(),)

    @property
    def is_settled(self) -> bool:
        """Whether a later change of the file would show in its times, which have a certain grain."""
        return time.time_ns() - self.modified > _SETTLED_NS

    def read(self) -> bytes:
        """All of it.

        Raises:
            ArtefactError: the file has changed, or is gone.
        """
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """All of it, a piece at a time.

        Raises:
            ArtefactError: the file has changed, or is gone.
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
    """All of a file.

    Raises:
        OSError: there is none, or it is something else than a file.
    """
    LargeFile.at(path)
    return path.read_bytes()
