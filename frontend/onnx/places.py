"""Where elements are: indices into several dimensions as indices into one, which is what gathers and scatters take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects.stepwell.elementwise import (
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
from ...dialects.stepwell.movement import ExpandDimsOp
from ...dialects.stepwell.shape import RangeOp
from .build import cast, chained, constant, dims_of, emit, gathered, integers, joined, rank, reshaped, scalar
from .node import Node


def extent(value: ir.Value, axis: int) -> ir.Value:
    """One dimension of a value as a scalar: a literal where it is known."""
    return reshaped(dims_of(value, axis, axis + 1), integers([]))


def numbers(value: ir.Value, axis: int, count: int | None = None) -> ir.Value:
    """0, 1, ... along one axis of a value, in a shape that broadcasts to that of its (first `count`) dimensions."""
    trailing = (rank(value) if count is None else count) - 1 - axis
    end = extent(value, axis)
    line = emit(RangeOp, scalar(0, end), end, scalar(1, end))
    return emit(ExpandDimsOp, line, axes=tuple(range(1, trailing + 1))) if trailing else line


def from_front(indices: ir.Value, count: ir.Value) -> ir.Value:
    """Indices into `count` elements that all count from the front; one outside stays outside."""
    indices = cast(indices, np.int64)
    is_negative = emit(LessOp, indices, scalar(0, indices))
    return emit(SelectOp, is_negative, emit(AddOp, indices, count), indices)


def inside(indices: ir.Value, count: ir.Value) -> ir.Value:
    """As `from_front`, with those outside moved to the first or the last element."""
    last = emit(SubOp, count, scalar(1, count))
    return emit(MaximumOp, emit(MinimumOp, from_front(indices, count), last), scalar(0, count))


def is_inside(indices: ir.Value, count: ir.Value) -> ir.Value:
    """Whether indices that count from the front name an element."""
    return emit(AndOp, emit(GreaterEqualOp, indices, scalar(0, indices)), emit(LessOp, indices, count))


def all_inside(indices: Sequence[ir.Value], counts: Sequence[ir.Value]) -> ir.Value:
    """Whether that is so in every dimension."""
    return chained(AndOp, [is_inside(index, count) for index, count in zip(indices, counts, strict=True)])


def flat(input: ir.Value, coordinates: Sequence[ir.Value]) -> ir.Value:
    """The number of a slice of `input` among all those that the coordinates along its first dimensions could name."""
    place = coordinates[0]
    for axis, coordinate in enumerate(coordinates[1:], 1):
        place = emit(AddOp, emit(MulOp, place, extent(input, axis)), coordinate)
    return place


def merged(input: ir.Value, count: int) -> ir.Value:
    """`input` with its first `count` dimensions as one, which numbers from `flat` index."""
    if count == 0:
        return reshaped(input, joined([integers([1]), dims_of(input, 0, rank(input))]))
    total = chained(MulOp, [extent(input, axis) for axis in range(count)])
    return reshaped(input, joined([reshaped(total, integers([1])), dims_of(input, count, rank(input))]))


def coordinates_of(node: Node, input: ir.Value, indices: ir.Value, axis: int) -> list[ir.Value]:
    """Coordinates of elements of `input` that have the place of their index, but along `axis` the one that it says."""
    assert rank(input) == rank(indices)
    return [indices if other == axis else numbers(indices, other) for other in range(rank(input))]


def named_coordinates(node: Node, indices: ir.Value, batches: int, depth: int) -> list[ir.Value]:
    """The coordinates that the last dimension of `indices` holds, as they are, after those of its first `batches`."""
    whole = cast(indices, np.int64)
    own = [numbers(indices, axis, rank(indices) - 1) for axis in range(batches)]
    return [*own, *(gathered(whole, constant(np.array(number)), -1) for number in range(depth))]
