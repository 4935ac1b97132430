"""Memory for the results of calls: a block is reused when the array that occupied it is no longer referenced.

Getting fresh pages from the system takes longer than filling them, so memory of large results is kept:

    Shelf.array() --> np.ndarray --.base--> Loan --from_buffer--> block
                                             | when the array and all views of it are gone
                                             v
                                      Shelf._blocks, or the system if the shelf is full or gone

The programs of a process share shelves, one per block size. A shelf lives as long as a program with results of its
size. It holds the blocks of two calls, since a loop holds the last result while it computes the next.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..memory import aligned_empty
from ..program import Count

LEAST_BYTES = 1 << 16
"""Minimum size in bytes of results whose memory is kept; for smaller ones numpy's allocation is cheaper."""

_CALLS = 2


Crops = Sequence[tuple[int, tuple[slice, ...]]]
"""The outputs that one count crops, each with whole slices for the dimensions before the one that it crops."""


def crops_of(count: Count) -> Crops:
    """Returns what a count crops."""
    return [(output, (slice(None),) * axis) for output, axis in count.cropped]


def cropped(outputs: list[np.ndarray], crops: Sequence[Crops], numbers: Sequence[Any]) -> list[np.ndarray]:
    """Returns the outputs cropped to the extents that a call has computed, as contiguous arrays.

    Args:
        outputs: the outputs with room for the most elements.
        crops: what each of the numbers crops.
        numbers: the extents.
    """
    parts = list(outputs)
    for number, places in zip(numbers, crops, strict=True):
        extent = slice(int(number))
        for output, before in places:
            parts[output] = parts[output][(*before, extent)]
    return [part if part is whole else _compact(part, whole) for part, whole in zip(parts, outputs, strict=True)]


def _compact(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Returns a part of an array, copied unless it is contiguous and most of the array."""
    if 2 * part.nbytes < whole.nbytes or not part.flags.c_contiguous:
        return part.copy("C")
    return part


class Shelf:
    """Free blocks of one size. Safe under threads and inside finalizers: all operations are single list operations.

    Attributes:
        nbytes: size of a block in bytes.
        most: maximum number of free blocks.
    """

    def __init__(self, nbytes: int) -> None:
        """Makes an empty shelf for blocks of `nbytes`."""
        self.nbytes, self.most = nbytes, 0
        self._blocks: list[np.ndarray] = []
        self._loan = _loan_type(self)

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Returns an uninitialised array in a block, which is returned when the array and all its views are gone."""
        try:
            block = self._blocks.pop()
        except IndexError:
            block = aligned_empty(self.nbytes)
        loan = self._loan.from_buffer(block)
        loan.block = block
        return np.ndarray(shape, dtype, loan)

    def take_back(self, block: np.ndarray) -> None:
        """Keeps an unused block, if there is room."""
        if len(self._blocks) < self.most:
            self._blocks.append(block)


def _loan_type(shelf: Shelf) -> Any:
    """Returns the type of the base of a shelf's arrays and all their views; it is finalized with the last of them."""
    shelf_ref = weakref.ref(shelf)

    def return_block(loan: Any) -> None:
        shelf = shelf_ref()
        if shelf is not None:
            shelf.take_back(loan.block)

    members = {"_type_": ctypes.c_char, "_length_": shelf.nbytes, "__del__": return_block}
    return type("Loan", (ctypes.Array,), members)


_SHELVES: weakref.WeakValueDictionary[int, Shelf] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def shelves_for(sizes: Sequence[int]) -> list[Shelf | None]:
    """Returns a shelf for each result of a program, given their sizes in bytes; None for those that are too small.

    Blocks are powers of two, so that results of models with many shapes share them. Pages that are never touched take
    no memory, and all shelves together hold no more than about twice the memory of the largest.
    """
    classes = [1 << (size - 1).bit_length() if size >= LEAST_BYTES else 0 for size in sizes]
    found: list[Shelf | None] = []
    with _LOCK:
        for size in classes:
            shelf = None
            if size:
                shelf = _SHELVES.get(size) or _SHELVES.setdefault(size, Shelf(size))
                shelf.most = max(shelf.most, _CALLS * classes.count(size))
            found.append(shelf)
    return found
