"""The memory of arrays in a call: arrays may have gaps between their rows, and share memory with others."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np


class Memory:
    """The bytes that the arrays of a call occupy, in regions that do not overlap.

    Attributes:
        regions: the bytes of each region, which are those of the arrays themselves.
        places: the region of each array, and the offset in bytes where the array starts there.
        written: whether each region contains an array to write.
    """

    def __init__(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], rooms: Sequence[int]) -> None:
        """Finds the regions.

        Args:
            inputs: the arrays to read, with their elements and the gaps between them.
            outputs: the arrays to write.
            rooms: the size in bytes of the memory from the start of each output on.
        """
        sizes = [_extent(array) for array in inputs] + list(rooms)
        starts = [array.ctypes.data for array in [*inputs, *outputs]]
        spans = sorted(zip(starts, sizes, range(len(starts)), strict=True))
        self._arrays = (inputs, outputs)  # keeps the memory
        self.places = [(0, 0)] * len(spans)
        self.written: list[bool] = []
        merged: list[tuple[int, int]] = []
        for start, size, number in spans:
            if size and merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], start + size))
            else:
                merged.append((start, start + size))
                self.written.append(False)
            self.places[number] = (len(merged) - 1, start - merged[-1][0])
            self.written[-1] |= number >= len(inputs)
        self.regions = [
            np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))
            if end > start
            else np.empty(0, np.uint8)
            for start, end in merged
        ]


def _extent(array: np.ndarray) -> int:
    """Returns the number of bytes from the first element to the end of the last one.

    Raises:
        ValueError: an array's elements do not follow each other upwards.
    """
    if not array.size:
        return 0
    if any(stride < 0 for stride in array.strides):
        raise ValueError(f"strides {array.strides} must not be negative")
    steps = ((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    return sum(steps) + array.itemsize
