"""A file without a name that several processes read and write, one at a time.

Needs no MLIR: a worker starts while the process that it works for imports it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

NUMBER = 8
"""How many bytes a number takes."""


class SharedFile:
    """The file, which is gone when nobody has it open.

    Attributes:
        descriptor: the file, for a process that inherits it.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Makes such a file, or is one that this process has inherited.

        Raises:
            OSError: there can be no such file.
        """
        self.descriptor = _unlinked_file() if descriptor is None else descriptor

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While no other process is in such a block."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def number(self, place: int) -> int:
        """One of the numbers that the file begins with."""
        return int.from_bytes(os.pread(self.descriptor, NUMBER, NUMBER * place), "little")

    def set_number(self, place: int, number: int) -> None:
        """Writes one of these numbers."""
        os.pwrite(self.descriptor, encoded(number), NUMBER * place)

    def write_anew(self, data: bytes) -> None:
        """Puts bytes in the place of all that the file has.

        Raises:
            OSError: there is no room for them.
        """
        os.ftruncate(self.descriptor, 0)
        left = memoryview(data)
        while left:
            left = left[os.pwrite(self.descriptor, left, len(data) - len(left)) :]

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)


def encoded(*numbers: int) -> bytes:
    """Numbers as the file has them."""
    return b"".join(number.to_bytes(NUMBER, "little") for number in numbers)


def _unlinked_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
