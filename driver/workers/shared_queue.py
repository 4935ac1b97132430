"""A queue of kernel libraries in a file, from which several processes take libraries one by one.

A process takes the next library without a request. A request would wait while MLIR holds the other process's Python
lock; a library assigned in advance would remain with a slow process when the queue is empty.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

from .shared_file import NUMBER, SharedFile, encoded


class Library(NamedTuple):
    """A library taken from the queue: its number and its bytecode."""

    number: int
    data: bytes


class SharedQueue(SharedFile):
    """The file: the number of libraries taken, their total number, where each ends, and the libraries."""

    def fill(self, libraries: Sequence[bytes]) -> None:
        """Replaces the libraries in the queue.

        Raises:
            OSError: the disk is full.
        """
        start = NUMBER * (2 + len(libraries))
        _, *ends = itertools.accumulate(map(len, libraries), initial=start)
        with self.locked():
            self.write_anew(b"".join([encoded(0, len(libraries), *ends), *libraries]))

    def take(self) -> Library | None:
        """Takes the next library; returns None if the queue is empty."""
        with self.locked():
            index, count = self.number(0), self.number(1)
            if index == count:
                return None
            self.set_number(0, index + 1)
        start = self.number(1 + index) if index else NUMBER * (2 + count)
        return Library(index, os.pread(self.descriptor, self.number(2 + index) - start, start))
