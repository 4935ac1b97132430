"""Index arithmetic: indices into several dimensions become indices into one, as gathers and scatters take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ..dialects.stepwell.elementwise import (
    AddOp,
    AndOp,
    GreaterEqualOp,
    LessOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    SelectOp,
    SubOp,
)
from ..dialects.stepwell.movement import BroadcastToOp, DynamicBroadcastToOp, ExpandDimsOp, ScatterOp
from ..dialects.stepwell.shape import RangeOp
from ..passes.ir.rewriting import defining_op
from .build import (
    cast,
    chained,
    constant,
    dims_of,
    emit,
    gathered,
    integers,
    joined,
    rank,
    reshaped,
    scalar,
    shape,
    shape_of,
)


def extent(value: ir.Value, axis: int) -> ir.Value:
    """One dimension of a value as a scalar: a literal if it is known."""
    return reshaped(dims_of(value, axis, axis + 1), integers([]))


def numbers(value: ir.Value, axis: int, count: int | None = None) -> ir.Value:
    """0, 1, ... along one axis of a value, in a shape that broadcasts to its (first `count`) dimensions."""
    trailing = (rank(value) if count is None else count) - 1 - axis
    end = extent(value, axis)
    line = emit(RangeOp, scalar(0, end), end, scalar(1, end))
    return emit(ExpandDimsOp, line, axes=tuple(range(1, trailing + 1))) if trailing else line


def from_front(indices: ir.Value, count: ir.Value) -> ir.Value:
    """Indices into `count` elements, converted to count from the front; an index out of range stays out of range."""
    indices = cast(indices, np.int64)
    is_negative = emit(LessOp, indices, scalar(0, indices))
    return emit(SelectOp, is_negative, emit(AddOp, indices, count), indices)


def inside(indices: ir.Value, count: ir.Value) -> ir.Value:
    """Indices as by `from_front`, with those out of range clipped to the first or last element."""
    last = emit(SubOp, count, scalar(1, count))
    return emit(MaximumOp, emit(MinimumOp, from_front(indices, count), last), scalar(0, count))


def is_inside(indices: ir.Value, count: ir.Value) -> ir.Value:
    """True for each index from the front that is in range."""
    return emit(AndOp, emit(GreaterEqualOp, indices, scalar(0, indices)), emit(LessOp, indices, count))


def all_inside(indices: Sequence[ir.Value], counts: Sequence[ir.Value]) -> ir.Value:
    """True for each index that is in range in every dimension."""
    return chained(AndOp, [is_inside(index, count) for index, count in zip(indices, counts, strict=True)])


def flat(input: ir.Value, coordinates: Sequence[ir.Value]) -> ir.Value:
    """The index of a slice of `input` in the flattened first dimensions that the coordinates cover."""
    position = coordinates[0]
    for axis, coordinate in enumerate(coordinates[1:], 1):
        position = emit(AddOp, emit(MulOp, position, extent(input, axis)), coordinate)
    return position


def merged(input: ir.Value, count: int) -> ir.Value:
    """Merges the first `count` dimensions of `input` into one, which indices from `flat` address."""
    if count == 0:
        return reshaped(input, joined([integers([1]), dims_of(input, 0, rank(input))]))
    total = chained(MulOp, [extent(input, axis) for axis in range(count)])
    return reshaped(input, joined([reshaped(total, integers([1])), dims_of(input, count, rank(input))]))


def coordinates_of(input: ir.Value, indices: ir.Value, axis: int) -> list[ir.Value]:
    """Coordinates of elements of `input`: the position of each index, with the index itself along `axis`."""
    assert rank(input) == rank(indices)
    return [indices if other == axis else numbers(indices, other) for other in range(rank(input))]


def named_coordinates(indices: ir.Value, batches: int, depth: int) -> list[ir.Value]:
    """The coordinates in the last dimension of `indices`, unchanged, after those of its first `batches` dimensions."""
    whole = cast(indices, np.int64)
    own = [numbers(indices, axis, rank(indices) - 1) for axis in range(batches)]
    return [*own, *(gathered(whole, constant(np.array(number)), -1) for number in range(depth))]


def elements(input: ir.Value, indices: ir.Value, axis: int) -> ir.Value:
    """The elements of `input` at the position of their index, except along `axis`, where the index's value counts.

    [a, b] at i [a, k] along 1 --> [a * b] at row * b + i
    """
    if rank(input) == 1:
        return gathered(input, indices, 0)
    slices = slices_of(input, indices, axis)
    if slices is not None and axis == 0:
        return gathered(input, slices, 0)
    if slices is not None:
        chosen = inside(slices, extent(input, axis))
        position = flat(input, [*(numbers(chosen, batch) for batch in range(axis)), chosen])
        return gathered(merged(input, axis + 1), position, 0)
    chosen = inside(indices, extent(input, axis))
    position = flat(input, coordinates_of(input, chosen, axis))
    return gathered(merged(input, rank(input)), position, 0)


def slices_of(input: ir.Value, indices: ir.Value, axis: int) -> ir.Value | None:
    """The indices of whole slices of `input`, if those of its elements repeat along all dimensions after `axis`.

    [a, n, 1] broadcast to [a, n, c], for the axis 1 of [a, b, c] --> [a, n]
    """
    repeated = defining_op(indices, BroadcastToOp) or defining_op(indices, DynamicBroadcastToOp)
    if repeated is None or axis == rank(input) - 1 or rank(repeated.input) != rank(indices):
        return None
    own, whole, target = shape(repeated.input), shape(indices), shape(input)
    if own != (*whole[: axis + 1], *[1] * (rank(input) - axis - 1)):
        return None
    if (*whole[:axis], *whole[axis + 1 :]) != (*target[:axis], *target[axis + 1 :]):
        return None
    return reshaped(repeated.input, dims_of(repeated.input, 0, axis + 1))


def with_elements(
    input: ir.Value, indices: ir.Value, updates: ir.Value, axis: int, reduction: str = "none"
) -> ir.Value:
    """`input` with the elements that `elements` would read replaced by, or combined with, those of `updates`.

    If the axis is the last one, rows are independent, and so are slices if all their elements have the same index;
    otherwise the updates go into the flat tensor.
    """
    slices = slices_of(input, indices, axis)
    if slices is not None:
        return emit(ScatterOp, input, cast(slices, np.int64), updates, axis=axis, reduction=reduction)
    if axis == rank(input) - 1 and shape(indices)[:-1] == shape(input)[:-1]:
        return emit(ScatterOp, input, cast(indices, np.int64), updates, axis=axis, reduction=reduction)
    counts = [extent(input, other) for other in range(rank(input))]
    chosen = from_front(indices, counts[axis])
    position = flat(input, coordinates_of(input, chosen, axis))
    position = unless_outside(position, [chosen], [counts[axis]])
    return scattered(input, position, updates, rank(input), reduction)


def unless_outside(position: ir.Value, indices: list[ir.Value], counts: list[ir.Value]) -> ir.Value:
    """`position` if its indices are in range, else an index after all elements, which a scatter drops."""
    nowhere = scalar(np.iinfo(np.int64).max, position)
    return emit(SelectOp, all_inside(indices, counts), position, nowhere)


def scattered(input: ir.Value, position: ir.Value, updates: ir.Value, count: int, reduction: str) -> ir.Value:
    """Applies updates to the slices that flat indices over the first `count` dimensions of `input` address."""
    inner = dims_of(input, count, rank(input))
    rows = merged(position, rank(position))
    changes = reshaped(updates, joined([shape_of(rows), inner]))
    made = emit(ScatterOp, merged(input, count), rows, changes, axis=0, reduction=reduction)
    return reshaped(made, dims_of(input, 0, rank(input)))
