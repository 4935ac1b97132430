"""Strides of the inputs that a program appends to, as entries of its table of extents."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...sizes.layouts import Appended
from ..memory import contiguous


class Layouts:
    """The layouts of the inputs that a program appends to, for calls with inputs of one set of shapes."""

    def __init__(self, appended: Sequence[Appended], table: np.ndarray) -> None:
        """Groups the inputs by the entries of the table that they share.

        Args:
            appended: the inputs.
            table: the table of extents, without the entries for layouts.
        """
        ordered = sorted(appended, key=lambda item: item.layout)
        self._groups = [list(group) for _, group in itertools.groupby(ordered, key=lambda item: item.layout)]
        self._numbers = [item.input for item in ordered]
        self._table = table
        # Most calls have inputs of the same layouts as the one before.
        self._latest: tuple[tuple[bool, list[tuple[int, ...]]], np.ndarray] = ((False, []), table)

    def fill(self, inputs: list[np.ndarray], *, in_place: bool) -> np.ndarray:
        """Returns the table for the strides of inputs; replaces inputs that cannot be read in place by copies.

        Args:
            inputs: the inputs of a call.
            in_place: whether the outputs that continue inputs share their memory.
        """
        key = (in_place, [inputs[number].strides for number in self._numbers])
        known, table = self._latest
        if key == known:
            return table
        table, is_read_there = self._table.copy(), True
        for group in self._groups:
            first = inputs[group[0].input]
            axis = group[0].axis
            if any(inputs[item.input].strides != first.strides for item in group) or not _is_readable(first, axis):
                is_read_there = False
                for item in group:
                    inputs[item.input] = contiguous(inputs[item.input])
                first = inputs[group[0].input]
            *entries, copied = group[0].layout
            for stride, entry in zip(first.strides, entries, strict=False):
                if entry >= 0:
                    table[entry] = stride // first.itemsize
            table[copied] = 0 if in_place and group[0].output >= 0 else first.shape[axis]
        if is_read_there:
            self._latest = (key, table)
        return table


def _is_readable(array: np.ndarray, axis: int) -> bool:
    """Returns whether the elements from a dimension on are contiguous, and the others at multiples of an element."""
    if not array.size:
        return True  # numpy makes other strides
    expected = array.itemsize
    for size, stride in zip(reversed(array.shape[axis:]), reversed(array.strides[axis:]), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return all(stride % array.itemsize == 0 for stride in array.strides[:axis])
