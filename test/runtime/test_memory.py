"""Addresses of arrays, which native code gets."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from stepwell.runtime.memory import addresses


def read_only() -> np.ndarray:
    array = np.arange(4)
    array.flags.writeable = False
    return array


def test_addresses_are_those_that_numpy_describes() -> None:
    table = np.zeros((4, 6), np.float32)
    arrays = [
        table,
        table[1:, 2:],
        table[::-1],
        table[:0],
        read_only(),
        np.array(True),
        np.zeros(3, ml_dtypes.bfloat16),
    ]
    assert addresses(arrays) == [array.__array_interface__["data"][0] for array in arrays]


def test_addresses_are_read_from_the_objects() -> None:
    assert addresses.__name__ == "_stored"
