"""Arrays that native code reads and writes in place: aligned, in C order, or broadcasts of one element."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable

import numpy as np

from ..support.errors import CapacityError
from ..support.mapped import forget_pages

ALIGNMENT = 64
"""Alignment of parameters and the arena in bytes; inputs and outputs are aligned to their elements only."""

_HEAD = object.__basicsize__
"""Offset in bytes of the data pointer in an array object: in numpy's ABI it follows the object's header."""

_pointer_at = ctypes.c_void_p.from_address


def _stored(arrays: Iterable[np.ndarray]) -> list[int | None]:
    return [
        _pointer_at(id(array) + _HEAD).value if isinstance(array, np.ndarray) else array.__array_interface__["data"][0]
        for array in arrays
    ]


def _described(arrays: Iterable[np.ndarray]) -> list[int | None]:
    return [array.__array_interface__["data"][0] for array in arrays]


_PROBE = [np.empty(1)]

# Reading the pointer takes a tenth of the time of `__array_interface__` or `array.ctypes.data`, and half of that of
# `ctypes.c_char.from_buffer`, which neither empty nor read-only arrays support.
addresses = _stored if sys.implementation.name == "cpython" and _stored(_PROBE) == _described(_PROBE) else _described
"""Returns the addresses of the first elements of arrays; an array on a device raises an `InputError`."""


def aligned_empty(nbytes: int) -> np.ndarray:
    """Returns uninitialised bytes, the first at a multiple of `ALIGNMENT`.

    Raises:
        CapacityError: not enough memory is available.
    """
    return _aligned(nbytes, np.empty)


def aligned_zeros(nbytes: int) -> np.ndarray:
    """Returns zeros, the first at a multiple of `ALIGNMENT`; pages occupy memory only once they are written.

    Raises:
        CapacityError: not enough memory is available.
    """
    return _aligned(nbytes, np.zeros)


def _aligned(nbytes: int, make: Callable[..., np.ndarray]) -> np.ndarray:
    try:
        block = make(nbytes + ALIGNMENT, np.uint8)
    except MemoryError:
        raise CapacityError(f"a block of {nbytes / 2**30:.1f} GiB of memory is needed, but not available") from None
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + nbytes]


def contiguous(array: np.ndarray) -> np.ndarray:
    """Returns the array, or a contiguous copy."""
    return array if array.flags.c_contiguous else np.array(array, order="C", copy=True)


def is_aligned(array: np.ndarray) -> bool:
    """Returns whether native code can read an array in place."""
    return array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0


def aligned(array: np.ndarray) -> np.ndarray:
    """Returns the array or a copy that native code can read; a broadcast of one element remains one.

    Raises:
        CapacityError: not enough memory is available for a copy.
    """
    if is_splat(array) or is_aligned(array):
        return array
    dense = aligned_copy(array)
    forget_pages(array)
    return dense


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """Returns an aligned copy of an array, in C order, that native code can read.

    Raises:
        CapacityError: not enough memory is available for it.
    """
    dense = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
    dense[...] = array
    return dense


def is_splat(array: np.ndarray) -> bool:
    """Returns whether an array is a broadcast of one element, by its strides."""
    return array.size > 1 and not any(array.strides)
