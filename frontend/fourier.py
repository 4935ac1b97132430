"""Fourier transforms as products with constant matrices."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from mlir import ir

from ..dialects.stepwell.contraction import MatmulOp
from ..dialects.stepwell.elementwise import AddOp, MulOp
from ..dialects.stepwell.movement import ExpandDimsOp, PadOp, ReverseOp
from ..support.wording import quantity
from .build import dims_of, dtype, emit, gathered, integers, joined, rank, reshaped, shape, transposed
from .errors import UnsupportedError

# Transforms longer than _DENSE are composed of shorter ones if their length has factors. A matrix with more than
# _LONGEST rows would be too large.
_DENSE, _LONGEST = 128, 8192


class _Importer(Protocol):
    def weight(self, name: str, array: np.ndarray) -> ir.Value: ...


class Named(Protocol):
    """A node that is being imported, whose name the matrices get."""

    name: str

    @property
    def importer(self) -> _Importer:
        """The current import."""
        ...


def wide_type(value: ir.Value) -> np.dtype:
    """Returns the element type in which a value is transformed."""
    return np.dtype(np.float64 if dtype(value) == np.float64 else np.float32)


def fitted(value: ir.Value, axis: int, size: int) -> ir.Value:
    """Returns `value` truncated, or padded with zeros, to `size` elements along an axis."""
    extent, count = shape(value)[axis], rank(value)
    assert isinstance(extent, int)
    if extent == size:
        return value
    if extent < size:
        high = tuple(size - extent if other == axis else 0 for other in range(count))
        return emit(PadOp, value, low=(0,) * count, high=high)
    return gathered(value, integers(range(size)), axis)


def _twiddle_factors(rows: int, columns: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of `2 pi row column / size`, without the rounding of large angles."""
    angle = 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % size) / size
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.where(np.abs(cosine) < 1e-15, 0, cosine), np.where(np.abs(sine) < 1e-15, 0, sine)


def _product(node: Named, value: ir.Value, matrix: np.ndarray, parts: int) -> ir.Value:
    """[..., n, part] times [n * part, k * parts] --> [..., k, parts]"""
    outer = dims_of(value, 0, rank(value) - 2)
    flat = reshaped(value, joined([outer, integers([matrix.shape[0]])]))
    weight = node.importer.weight(f"{node.name}.matrix", matrix.astype(wide_type(value)))
    made = emit(MatmulOp, flat, weight) if rank(flat) > 1 else _row_product(flat, weight)
    return reshaped(made, joined([outer, integers([matrix.shape[1] // parts, parts])]))


def _row_product(row: ir.Value, weight: ir.Value) -> ir.Value:
    return emit(MatmulOp, emit(ExpandDimsOp, row, axes=(0,)), weight)


def transform(node: Named, value: ir.Value, inverse: bool) -> ir.Value:
    """Returns all frequencies: [..., n, part] --> [..., n, 2]

    If n is a * b: [..., a, b, part], transforms along a, multiplies by twiddle factors, and transforms along b.
    """
    size, parts = shape(value)[-2:]
    assert isinstance(size, int)
    assert isinstance(parts, int)
    sign = 1 if inverse else -1
    factor = _factor(size) if size > _DENSE else 1
    if factor == 1:
        return _dense(node, value, size, parts, sign, 1 / size if inverse else 1.0)
    rest, count = size // factor, rank(value) - 2
    outer = dims_of(value, 0, count)
    split = reshaped(value, joined([outer, integers([factor, rest, parts])]))
    lead = tuple(range(count))
    swap = (*lead, count + 1, count, count + 2)
    first = transform(node, transposed(split, swap), inverse)
    twiddled = _twiddled(node, first, rest, factor, size, sign)
    second = transform(node, transposed(twiddled, swap), inverse)
    return reshaped(transposed(second, swap), joined([outer, integers([size, 2])]))


def _factor(size: int) -> int:
    """The greatest factor up to the square root."""
    return next(factor for factor in range(math.isqrt(size), 0, -1) if size % factor == 0)


def _dense(node: Named, value: ir.Value, size: int, parts: int, sign: int, scale: float) -> ir.Value:
    if size > _LONGEST:
        raise UnsupportedError(f"transforms {quantity(size, 'element')}, a number whose factors are too large")
    cosine, sine = _twiddle_factors(size, size, size)
    blocks = [np.stack([cosine, sign * sine], -1)]
    if parts == 2:
        blocks.append(np.stack([-sign * sine, cosine], -1))
    matrix = np.stack(blocks, 1).reshape(size * parts, size * 2) * scale
    return _product(node, value, matrix, 2)


def _twiddled(node: Named, value: ir.Value, rows: int, columns: int, size: int, sign: int) -> ir.Value:
    """Multiplies complex numbers [..., row, column, 2] by `exp(sign 2 pi i row column / size)`."""
    cosine, sine = _twiddle_factors(rows, columns, size)
    kind = wide_type(value)
    same = node.importer.weight(f"{node.name}.cosines", np.stack([cosine, cosine], -1).astype(kind))
    crossed = node.importer.weight(f"{node.name}.sines", np.stack([-sign * sine, sign * sine], -1).astype(kind))
    swapped = emit(ReverseOp, value, axes=(-1,))
    return emit(AddOp, emit(MulOp, value, same), emit(MulOp, swapped, crossed))


def real_inverse(node: Named, value: ir.Value, size: int) -> ir.Value:
    """Returns real numbers: [..., n / 2 + 1, 2] --> [..., n, 1]; the other frequencies are the conjugates of these."""
    count, parts = size // 2 + 1, shape(value)[-1]
    if count * 2 > _LONGEST:
        raise UnsupportedError(f"transforms {size} frequencies back to real numbers")
    cosine, sine = _twiddle_factors(count, size, size)
    weight = np.full((count, 1), 2 / size)
    weight[0] = 1 / size
    if size % 2 == 0:
        weight[-1] = 1 / size
    blocks = [cosine * weight, -sine * weight][: parts if isinstance(parts, int) else 2]
    return _product(node, value, np.stack(blocks, 1).reshape(-1, size), 1)
