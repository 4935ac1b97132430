"""Writing elements to computed positions."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import AddOp, ModOp, SelectOp
from ....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp, ScatterOp
from ...errors import AttributeFault, NodeError
from .. import places
from ..build import cast, dims_of, emit, joined, known_dim, normal_axis, rank, reshaped, scalar, shape, shape_of
from ..data_checks import check_indices
from ..node import Node
from ..registry import imports


@imports("Scatter")
@imports("ScatterElements", since=11)
def scatter_elements(node: Node, input: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    """ScatterElements: one index per update, along an axis.

    If the axis is the last one, rows are independent; otherwise the updates go into the flat tensor.
    """
    if rank(indices) != rank(input) or rank(updates) != rank(input):
        raise NodeError(f"has indices of rank {rank(indices)} for an input of rank {rank(input)}")
    axis, reduction = normal_axis(node.attribute("axis"), rank(input)), node.attribute("reduction", "none")
    check_indices(node, indices, input, [axis])
    if axis == rank(input) - 1 and shape(indices)[:-1] == shape(input)[:-1]:
        return emit(ScatterOp, input, cast(indices, np.int64), updates, axis=axis, reduction=reduction)
    counts = [places.extent(input, other) for other in range(rank(input))]
    chosen = places.from_front(indices, counts[axis])
    place = places.flat(input, places.coordinates_of(node, input, chosen, axis))
    place = _unless_outside(input, place, [chosen], [counts[axis]])
    return _scattered(input, place, updates, rank(input), reduction)


@imports("ScatterND")
def scatter_nd(node: Node, input: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    """ScatterND: each index addresses an element, or a slice, in the leading dimensions, which are merged."""
    depth = known_dim(indices, rank(indices) - 1, "the number of coordinates per index")
    if not 1 <= depth <= rank(input):
        raise NodeError(f"has indices of {depth} coordinates for an input of rank {rank(input)}")
    counts = [places.extent(input, axis) for axis in range(depth)]
    check_indices(node, indices, input, range(depth))
    named = places.named_coordinates(node, indices, 0, depth)
    chosen = [places.from_front(index, count) for index, count in zip(named, counts, strict=True)]
    place = _unless_outside(input, places.flat(input, chosen), chosen, counts)
    return _scattered(input, place, updates, depth, node.attribute("reduction", "none"))


@imports("TensorScatter", since=24)
def tensor_scatter(node: Node, past: ir.Value, update: ir.Value, starts: ir.Value | None = None) -> ir.Value:
    """TensorScatter: writes the rows of `update` to rows of `past`, from a start index that each batch has."""
    axis, mode = normal_axis(node.attribute("axis"), rank(past)), node.attribute("mode")
    if axis == 0:
        raise AttributeFault("attribute 'axis' must not be the batch dimension")
    if mode not in ("linear", "circular"):
        raise AttributeFault(f"attribute 'mode' is '{mode}', which is neither linear nor circular")
    count = places.extent(past, axis)
    place = places.numbers(update, axis, axis + 1)
    if starts is not None:
        start = emit(ExpandDimsOp, cast(starts, np.int64), axes=tuple(range(1, axis + 1)))
        place = emit(AddOp, start, place)
    if mode == "circular":
        place = emit(ModOp, place, count)
    coordinates = [place if other == axis else places.numbers(update, other, axis + 1) for other in range(axis + 1)]
    place = _unless_outside(past, places.flat(past, coordinates), [place], [count])
    place = emit(DynamicBroadcastToOp, place, dims_of(update, 0, axis + 1))
    return _scattered(past, place, update, axis + 1, "none")


def _unless_outside(input: ir.Value, place: ir.Value, indices: list[ir.Value], counts: list[ir.Value]) -> ir.Value:
    """`place` if its indices are in range, else an index after all elements, which a scatter drops."""
    nowhere = scalar(np.iinfo(np.int64).max, place)
    return emit(SelectOp, places.all_inside(indices, counts), place, nowhere)


def _scattered(input: ir.Value, place: ir.Value, updates: ir.Value, count: int, reduction: str) -> ir.Value:
    """Applies updates to the slices that flat indices over the first `count` dimensions of `input` address."""
    inner = dims_of(input, count, rank(input))
    rows = places.merged(place, rank(place))
    changes = reshaped(updates, joined([shape_of(rows), inner]))
    made = emit(ScatterOp, places.merged(input, count), rows, changes, axis=0, reduction=reduction)
    return reshaped(made, dims_of(input, 0, rank(input)))
