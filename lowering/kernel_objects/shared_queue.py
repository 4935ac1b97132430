"""Libraries of kernels in a file, which several processes take one by one.

Whoever is done with one takes the next without asking: a process that had to ask would wait for as long as MLIR holds
the other's Python lock, and one that had the next at hand beforehand would still have it when nothing else is left.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

_NUMBER = 8


class Library(NamedTuple):
    """A library that was taken: which one, and its bytecode."""

    number: int
    data: bytes


def unlinked_file() -> int:
    """The descriptor of a new file without a name.

    Raises:
        OSError: there can be no such file.
    """
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedQueue:
    """The file: how many libraries were taken, how many there are, where each ends, and the libraries.

    Attributes:
        descriptor: the file, for a process that inherits it.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Makes a queue, or is one that this process has inherited.

        Raises:
            OSError: there can be no such file.
        """
        self.descriptor = unlinked_file() if descriptor is None else descriptor

    def fill(self, libraries: Sequence[bytes]) -> None:
        """Puts libraries in the place of those that were there.

        Raises:
            OSError: there is no room for them.
        """
        end, ends = _NUMBER * (2 + len(libraries)), []
        for library in libraries:
            end += len(library)
            ends.append(end)
        head = b"".join(number.to_bytes(_NUMBER, "little") for number in (0, len(libraries), *ends))
        left = memoryview(b"".join([head, *libraries]))
        with self._locked():
            os.ftruncate(self.descriptor, 0)
            while left:
                left = left[os.pwrite(self.descriptor, left, end - len(left)) :]

    def take(self) -> Library | None:
        """The first library that nobody has taken."""
        with self._locked():
            index, count = self._number(0), self._number(1)
            if index == count:
                return None
            os.pwrite(self.descriptor, (index + 1).to_bytes(_NUMBER, "little"), 0)
        start = self._number(1 + index) if index else _NUMBER * (2 + count)
        return Library(index, os.pread(self.descriptor, self._number(2 + index) - start, start))

    def close(self) -> None:
        """Closes the file, which is then gone."""
        os.close(self.descriptor)

    def _number(self, place: int) -> int:
        return int.from_bytes(os.pread(self.descriptor, _NUMBER, _NUMBER * place), "little")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)
