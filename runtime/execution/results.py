"""Memory for the results of calls: a block is reused when no array refers to it any more.

Getting fresh pages from the system takes longer than filling them, so memory of large results is kept. A result is an
array whose base is the block, as are all views of it, so the count of references to the block tells whether any of
them is left.

The programs of a process share shelves, one per block size. A shelf lives as long as a program with results of its
size. It holds the blocks of two calls, since a loop holds the last result while it computes the next.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..memory import aligned_empty
from ..program import Count

LEAST_BYTES = 1 << 16
"""Minimum size in bytes of results whose memory is kept; for smaller ones numpy's allocation is cheaper."""

_LARGEST_SPARE = 1 << 12
"""Maximum size in bytes of an array that a view of a small part keeps alive: one page.

The part of a larger array is copied, which takes longer than many small calls may take."""

# Calls whose results have memory at a time: callers often hold the last results while the next are computed.
_CALLS = 2


Crops = Sequence[tuple[int, tuple[slice, ...]]]
"""The outputs that one count crops, each with whole slices for the dimensions before the one that it crops."""


def crops_of(count: Count) -> Crops:
    """Returns the outputs that a count crops."""
    return [(output, (slice(None),) * axis) for output, axis in count.cropped]


def cropped(outputs: list[np.ndarray], crops: Sequence[Crops], numbers: Sequence[Any]) -> list[np.ndarray]:
    """Returns the outputs cropped to the extents that a call has computed, as contiguous arrays.

    Args:
        outputs: the outputs with room for the most elements.
        crops: the outputs that each of the numbers crops.
        numbers: the extents.
    """
    parts = list(outputs)
    for place, number in enumerate(numbers):  # `zip(strict=True)` takes half a microsecond
        extent = slice(number.item())
        for output, before in crops[place]:
            parts[output] = parts[output][(*before, extent)]
    for output, whole in enumerate(outputs):
        if parts[output] is not whole:
            parts[output] = _compact(parts[output], whole)
    return parts


def _compact(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Returns a part of an array, copied unless it is contiguous and either most of the array or the array is small."""
    if part.flags.c_contiguous and (2 * part.nbytes >= whole.nbytes or whole.nbytes <= _LARGEST_SPARE):
        return part
    return part.copy("C")


def _references() -> int:
    block = np.empty(0)
    return sys.getrefcount(block)


_ALONE = _references()
"""Result of `sys.getrefcount` for an object that only a local variable refers to; it depends on the interpreter."""


class Shelf:
    """Blocks of one size. Thread-safe: while a thread examines a block, the block is not on the shelf.

    Attributes:
        nbytes: size of a block in bytes.
        most: maximum number of blocks, free ones and others.
    """

    def __init__(self, nbytes: int) -> None:
        """Makes an empty shelf for blocks of `nbytes`."""
        self.nbytes, self.most = nbytes, 0
        self._blocks: deque[np.ndarray] = deque()  # in the order of their last use

    def block(self) -> Any:  # which pyright takes as a buffer
        """Returns a block that nothing else refers to, as an array of bytes."""
        blocks = self._blocks
        for _ in range(len(blocks)):
            try:
                block = blocks.popleft()
            except IndexError:  # other threads look at the rest
                break
            is_free = sys.getrefcount(block) == _ALONE
            blocks.append(block)
            if is_free:
                return block
        # Made from a memory view, since numpy makes the owner of the memory the base of all views if it is an array.
        block = np.frombuffer(aligned_empty(self.nbytes).data, np.uint8)
        blocks.append(block)
        if len(blocks) > self.most:
            blocks.popleft()  # remains with those who refer to it
        return block

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Returns an uninitialised array in a block, which is used again when the array and all its views are gone."""
        return np.ndarray(shape, dtype, self.block())  # pyright: ignore[reportArgumentType]  an array is a buffer


_SHELVES: weakref.WeakValueDictionary[int, Shelf] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def shelves_for(sizes: Sequence[int], least: int = LEAST_BYTES) -> list[Shelf | None]:
    """Returns a shelf for each result of a program, given their sizes in bytes; None for those below `least`.

    Blocks are powers of two, so that results of models with many shapes share them. Pages that are never touched take
    no memory, and all shelves together hold no more than about twice the memory of the largest.
    """
    classes = [1 << max(size - 1, 0).bit_length() if size >= least else 0 for size in sizes]
    found: list[Shelf | None] = []
    with _LOCK:
        for size in classes:
            shelf = None
            if size:
                shelf = _SHELVES.get(size) or _SHELVES.setdefault(size, Shelf(size))
                shelf.most = max(shelf.most, _CALLS * classes.count(size))
            found.append(shelf)
    return found
