"""Builders of stepwell ops for derivatives. Operands are values; numbers take the element type of the other operand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects.core import Op
from ...dialects.stepwell import elementwise as ops
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.movement import BroadcastToOp, ConcatOp, PadOp, ReshapeOp, ScatterOp, SliceOp, TransposeOp
from ...dialects.stepwell.reduction import ReduceSumOp
from ..graph.packing.copy_columns import LEAST_EXTENT, MOST_IN_BLOCKS
from ..graph.values import constant, dtype_of, scalar_like, splat_constant
from ..ir.values import Shape, shape_of

ValueOrNumber = ir.Value | float


def full(number: float, like: ir.Value, shape: Sequence[int] | None = None) -> ir.Value:
    """A tensor filled with a number; it has the element type of `like`, and its shape if none is given."""
    return splat_constant(dtype_of(like).type(number), shape_of(like) if shape is None else shape)


def zeros(like: ir.Value) -> ir.Value:
    """Zeros of the shape and element type of a value."""
    return full(0, like)


def literal(array: np.ndarray, like: ir.Value) -> ir.Value:
    """A constant with the contents of an array and the element type of `like`."""
    return constant(np.asarray(array).astype(dtype_of(like)))


def add(lhs: ValueOrNumber, rhs: ValueOrNumber) -> ir.Value:
    """The sum."""
    return _binary(ops.AddOp, lhs, rhs)


def sub(lhs: ValueOrNumber, rhs: ValueOrNumber) -> ir.Value:
    """The difference."""
    return _binary(ops.SubOp, lhs, rhs)


def mul(lhs: ValueOrNumber, rhs: ValueOrNumber, *others: ValueOrNumber) -> ir.Value:
    """The product of two or more values, multiplied from left to right."""
    product = _binary(ops.MulOp, lhs, rhs)
    return mul(product, *others) if others else product


def div(lhs: ValueOrNumber, rhs: ValueOrNumber) -> ir.Value:
    """The quotient."""
    return _binary(ops.DivOp, lhs, rhs)


def square(value: ir.Value) -> ir.Value:
    """The product of a value with itself."""
    return mul(value, value)


def _binary(kind: type[Op], lhs: ValueOrNumber, rhs: ValueOrNumber) -> ir.Value:
    return kind(*_values(lhs, rhs)).result


def _values(lhs: ValueOrNumber, rhs: ValueOrNumber) -> tuple[ir.Value, ir.Value]:
    """Makes a number, which only one of two may be, a scalar of the other's type."""
    if not isinstance(lhs, ir.Value):
        assert isinstance(rhs, ir.Value)
        return scalar_like(lhs, rhs), rhs
    return lhs, rhs if isinstance(rhs, ir.Value) else scalar_like(rhs, lhs)


def unary(kind: type[Op], value: ir.Value) -> ir.Value:
    """The result of an op of the class `kind` with one operand and no attributes."""
    return kind(value).result


def neg(value: ir.Value) -> ir.Value:
    """The negative."""
    return unary(ops.NegOp, value)


def exp(value: ir.Value) -> ir.Value:
    """The exponential."""
    return unary(ops.ExpOp, value)


def compare(kind: type[ops.ComparisonOp], lhs: ir.Value, rhs: ValueOrNumber) -> ir.Value:
    """The result of a comparison op of the class `kind`, as bools."""
    return _binary(kind, lhs, rhs)


def both(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """The conjunction of bools."""
    return ops.AndOp(lhs, rhs).result


def select(condition: ir.Value, on_true: ValueOrNumber, on_false: ValueOrNumber) -> ir.Value:
    """`on_true` where the condition holds, else `on_false`; one of them is a value."""
    return ops.SelectOp(condition, *_values(on_true, on_false)).result


def cast(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """A value in another element type; itself if it has that type."""
    return value if dtype_of(value) == dtype else ops.CastOp(value, dtype=dtype).result


def reshape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A value in another shape; itself if it has that shape."""
    return value if tuple(shape) == shape_of(value) else ReshapeOp(value, shape=tuple(shape)).result


def transpose(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """A value with its dimensions in another order; itself if that is their order."""
    order = tuple(permutation)
    return value if order == tuple(range(len(order))) else TransposeOp(value, permutation=order).result


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another one."""
    return tuple(int(axis) for axis in np.argsort(permutation))


def to_front(value: ir.Value, axis: int) -> ir.Value:
    """A value with a dimension as the first one."""
    rank = len(shape_of(value))
    return transpose(value, [axis, *(other for other in range(rank) if other != axis)])


def from_front(value: ir.Value, axis: int) -> ir.Value:
    """The inverse of `to_front`."""
    rank = len(shape_of(value))
    return transpose(value, inverse([axis, *(other for other in range(rank) if other != axis)]))


def broadcast(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A value broadcast to a shape; itself if it has that shape."""
    return value if tuple(shape) == shape_of(value) else BroadcastToOp(value, shape=tuple(shape)).result


def total(value: ir.Value, axes: Sequence[int], keepdims: bool = True) -> ir.Value:
    """The sum along some dimensions; the value itself if there are none."""
    return ReduceSumOp(value, axes=tuple(axes), keepdims=keepdims).result if axes else value


def sum_to(value: ir.Value, shape: Shape) -> ir.Value:
    """A value summed over the dimensions along which `shape` was broadcast to it; the inverse of `broadcast`.

    [4, 8] --> [1, 8]: the sum along dimension 0
    """
    given = shape_of(value)
    if given == shape:
        return value
    padded = (1,) * (len(given) - len(shape)) + tuple(shape)
    axes = [axis for axis, (old, new) in enumerate(zip(given, padded, strict=True)) if new == 1 and old != 1]
    return reshape(total(value, axes), shape)


def bounded(indices: ir.Value, extent: int) -> ir.Value:
    """Indices clipped to a dimension of `extent` elements."""
    return ops.MaximumOp(
        ops.MinimumOp(indices, scalar_like(extent - 1, indices)).result, scalar_like(0, indices)
    ).result


def scattered(updates: ir.Value, indices: ir.Value, extent: int) -> ir.Value:
    """Zeros [extent, ..], to which rows [n, ..] are added at indices [n]."""
    rows = full(0, updates, (extent, *shape_of(updates)[1:]))
    return ScatterOp(rows, indices, updates, axis=0, reduction="add").result


def pad(value: ir.Value, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    """A value with zeros around it; itself if there are none."""
    return PadOp(value, low=tuple(low), high=tuple(high)).result if any((*low, *high)) else value


def part(value: ir.Value, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None) -> ir.Value:
    """A strided slice of a value; the value itself if the slice is all of it."""
    steps = (1,) * len(starts) if steps is None else tuple(steps)
    if not any(starts) and tuple(stops) == shape_of(value) and set(steps) <= {1}:
        return value
    return SliceOp(value, starts=tuple(starts), stops=tuple(stops), steps=steps).result


def concat(values: Sequence[ir.Value], axis: int) -> ir.Value:
    """Values concatenated along a dimension, as a balanced tree: a chain would copy the first one many times."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return ConcatOp(concat(values[:middle], axis), concat(values[middle:], axis), axis=axis).result


def dilated(value: ir.Value, steps: Sequence[int]) -> ir.Value:
    """A value with `step - 1` zeros between its elements along each dimension.

    [a, b] with a step of 3 --> [a, 0, 0, b]
    """
    for axis, step in enumerate(steps):
        shape = shape_of(value)
        if step == 1 or shape[axis] == 1:
            continue
        rank, size = len(shape) + 1, shape[axis] * step
        spread = reshape(value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        high = [step - 1 if place == axis + 1 else 0 for place in range(rank)]
        spread = reshape(pad(spread, [0] * rank, high), (*shape[:axis], size, *shape[axis + 1 :]))
        stops = [size - step + 1 if place == axis else extent for place, extent in enumerate(shape)]
        value = part(spread, [0] * len(shape), stops)
    return value


def matmul(lhs: ir.Value, rhs: ir.Value, *, transpose_lhs: bool = False, transpose_rhs: bool = False) -> ir.Value:
    """A matrix product."""
    return MatmulOp(lhs, rhs, transpose_lhs=transpose_lhs, transpose_rhs=transpose_rhs).result


MOST_ROWS = 256
"""Maximum number of rows in one block of `product_of_columns`.

The rows of a block then stay in the cache for all tiles of the result: the product of 12,544 x 32 and 12,544 x 144
numbers takes a quarter of the time (on an EPYC of Zen 3, one thread)."""


def product_of_columns(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """The product of a transposed matrix [n, rows] and a matrix [n, columns] with a large n: [rows, columns].

    If the result is small, the sum over n is split into blocks of at most `MOST_ROWS` rows, whose products are added.
    `stepwell-pack-weights` copies an operand of larger ones.
    """
    number, rows = shape_of(lhs)
    columns = shape_of(rhs)[1]
    if rows * columns > MOST_IN_BLOCKS and min(rows, columns) >= LEAST_EXTENT:
        return matmul(lhs, rhs, transpose_lhs=True)
    block = next((size for size in range(min(MOST_ROWS, number), 0, -1) if number % size == 0), number)
    if block == number or block < MOST_ROWS // 8:
        return matmul(lhs, rhs, transpose_lhs=True)
    blocks = number // block
    parts = matmul(reshape(lhs, (blocks, block, rows)), reshape(rhs, (blocks, block, columns)), transpose_lhs=True)
    return total(parts, [0], keepdims=False)


def count(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return math.prod(shape)
