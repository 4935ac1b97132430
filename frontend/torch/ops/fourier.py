"""Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.types import is_float
from ...build import dtype, emit, gathered, integers, known_number, rank, scalar, transposed
from ...errors import UnsupportedError
from ...fourier import fitted, real_inverse, transform
from ..node import AtenNode, axis_of
from ..pairs import Complex
from ..registry import imports_complex
from .arithmetic import as_value
from .complex_numbers import apart, pair, together


@imports_complex("aten._fft_r2c.default")
def transform_of_real(
    node: AtenNode, input: ir.Value, dim: Sequence[int], normalization: int, onesided: bool
) -> Complex:
    """The transform of real numbers; if one-sided, the last dimension has half of the frequencies."""
    value = emit(ExpandDimsOp, input, axes=(rank(input),))
    count = 1
    for place, axis in enumerate(reversed(dim)):
        size = known_number(input, axis_of(input, axis), "the length of a transform")
        value, count = _along(node, value, axis_of(input, axis), inverse=False), count * size
        if onesided and place == 0:
            value = gathered(value, integers(range(size // 2 + 1)), axis_of(input, axis))
    return apart(_normal(value, count, normalization, inverse=False)) if dim else pair(input, node.dtype())


@imports_complex("aten._fft_c2c.default")
def transform_of_complex(
    node: AtenNode, input: Complex, dim: Sequence[int], normalization: int, forward: bool
) -> Complex:
    """The transform of complex numbers, or its inverse."""
    value, count = together(input), 1
    for axis in dim:
        place = axis_of(input.real, axis)
        count *= known_number(input.real, place, "the length of a transform")
        value = _along(node, value, place, inverse=not forward)
    return apart(_normal(value, count, normalization, inverse=not forward)) if dim else input


@imports_complex("aten._fft_c2r.default")
def transform_to_real(
    node: AtenNode, input: Complex, dim: Sequence[int], normalization: int, last_dim_size: Any
) -> ir.Value:
    """The inverse transform of half of the frequencies of real numbers."""
    if isinstance(last_dim_size, ir.Value):
        raise UnsupportedError("transforms to a number of elements that is not known")
    value, count, last = together(input), last_dim_size, axis_of(input.real, dim[-1])
    for axis in dim[:-1]:
        place = axis_of(input.real, axis)
        count *= known_number(input.real, place, "the length of a transform")
        value = _along(node, value, place, inverse=True)
    order = [*(axis for axis in range(rank(value) - 1) if axis != last), last, rank(value) - 1]
    known_number(value, last, "the length of a transform")
    halves = fitted(transposed(value, order), rank(value) - 2, last_dim_size // 2 + 1)
    made = gathered(real_inverse(node, halves, last_dim_size), as_value(0, np.dtype(np.int64)), -1)
    back = [order.index(axis) for axis in range(rank(made))]
    return _normal(transposed(made, back), count, normalization, inverse=True)


def _along(node: AtenNode, value: ir.Value, axis: int, inverse: bool) -> ir.Value:
    """Transforms [..., parts] along an axis; both parts remain."""
    last = rank(value) - 1
    order = [*(other for other in range(last) if other != axis), axis, last]
    made = transform(node, transposed(value, order), inverse)
    return transposed(made, [order.index(other) for other in range(rank(value))])


def _normal(value: ir.Value, count: int, normalization: int, inverse: bool) -> ir.Value:
    """Scales a transform of `count` elements; inverse ones have been divided by it."""
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization] * (count if inverse else 1)
    assert is_float(dtype(value))
    return value if factor == 1 else emit(ew.MulOp, value, scalar(factor, value))
