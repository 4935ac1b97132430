"""The op interface `defined`: which elements of a result the op defines, for ops that leave some of them undefined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .interfaces import Interface

Defined = Callable[[Any, Sequence[np.ndarray], np.ndarray], np.ndarray]
"""Gets an op, its operands and its result; returns a mask that can be broadcast to the result."""

DEFINED: Interface[Defined] = Interface(
    "defined", "which elements of the result it defines, if not all", rooms=("dialects.stepwell",)
)


def first_of(count: int, shape: Sequence[int], axis: int) -> np.ndarray:
    """Returns a mask of the first `count` slices along an axis of a tensor."""
    return (np.arange(shape[axis]) < count).reshape([-1 if place == axis else 1 for place in range(len(shape))])
