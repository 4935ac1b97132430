"""Parameters in memory, as native code reads them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..memory import aligned, aligned_empty, is_splat
from ..program import Program

_PART_BYTES = 8 << 20
"""Bytes that a thread fills at a time: a choice; filling them takes far longer than passing them to a thread."""


class ResidentParameters:
    """The parameters of a model's programs, dense and aligned; programs that share one share its memory."""

    def __init__(self) -> None:
        self._memory: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def resident(self, array: np.ndarray) -> np.ndarray:
        """Returns the parameter as native code reads it."""
        if id(array) in self._memory:
            return self._memory[id(array)][1]
        dense = aligned(array)
        if is_splat(array):
            dense = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
            fill(dense, array)
        self._memory[id(array)] = (array, dense)  # keeps the array alive, so that its id stays unique
        return dense

    def keep(self, programs: Iterable[Program]) -> None:
        """Forgets the parameters of all but the given programs."""
        used = {id(array) for program in programs for array in program.parameters.values()}
        for key in self._memory.keys() - used:
            del self._memory[key]


def fill(dense: np.ndarray, array: np.ndarray) -> None:
    """Fills an array with the one element of another; uses two threads for large ones, as page faults dominate."""
    if array.nbytes < 2 * _PART_BYTES:
        dense[...] = array
        return
    from concurrent.futures import ThreadPoolExecutor  # most starts do not need it

    flat, step = dense.reshape(-1), _PART_BYTES // array.itemsize
    parts = [flat[start : start + step] for start in range(0, flat.size, step)]
    with ThreadPoolExecutor(2) as pool:  # filling releases Python's lock
        list(pool.map(lambda part: part.fill(array.flat[0]), parts))
