"""Libraries of kernels in a file, which several processes take one by one.

Whoever is done with one takes the next without asking: a process that had to ask would wait for as long as MLIR holds
the other's Python lock, and one that had the next at hand beforehand would still have it when nothing else is left.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

from .shared_file import NUMBER, SharedFile, encoded


class Library(NamedTuple):
    """A library that was taken: which one, and its bytecode."""

    number: int
    data: bytes


class SharedQueue(SharedFile):
    """The file: how many libraries were taken, how many there are, where each ends, and the libraries."""

    def fill(self, libraries: Sequence[bytes]) -> None:
        """Puts libraries in the place of those that were there.

        Raises:
            OSError: there is no room for them.
        """
        start = NUMBER * (2 + len(libraries))
        _, *ends = itertools.accumulate(map(len, libraries), initial=start)
        with self.locked():
            self.write_anew(b"".join([encoded(0, len(libraries), *ends), *libraries]))

    def take(self) -> Library | None:
        """The first library that nobody has taken."""
        with self.locked():
            index, count = self.number(0), self.number(1)
            if index == count:
                return None
            self.set_number(0, index + 1)
        start = self.number(1 + index) if index else NUMBER * (2 + count)
        return Library(index, os.pread(self.descriptor, self.number(2 + index) - start, start))
