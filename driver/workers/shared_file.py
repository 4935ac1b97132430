"""An unnamed file that several processes read and write under a lock.

Needs no MLIR: a worker starts while its parent process imports it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

NUMBER = 8
"""Bytes of a number."""


class SharedFile:
    """The file, which is deleted when the last process closes it.

    Attributes:
        descriptor: the file's descriptor, for a process that inherits it.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Creates such a file, or uses one that this process has inherited.

        Raises:
            OSError: the file cannot be created.
        """
        self.descriptor = _unlinked_file() if descriptor is None else descriptor

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Excludes other processes from such blocks."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def number(self, index: int) -> int:
        """Returns one of the numbers at the start of the file."""
        return int.from_bytes(os.pread(self.descriptor, NUMBER, NUMBER * index), "little")

    def set_number(self, index: int, number: int) -> None:
        """Writes one of these numbers."""
        os.pwrite(self.descriptor, encoded(number), NUMBER * index)

    def write_anew(self, data: bytes) -> None:
        """Replaces the contents of the file.

        Raises:
            OSError: the disk is full.
        """
        os.ftruncate(self.descriptor, 0)
        left = memoryview(data)
        while left:
            left = left[os.pwrite(self.descriptor, left, len(data) - len(left)) :]

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)


def encoded(*numbers: int) -> bytes:
    """Encodes numbers as the file stores them."""
    return b"".join(number.to_bytes(NUMBER, "little") for number in numbers)


def _unlinked_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
