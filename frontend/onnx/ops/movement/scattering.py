"""Writing elements to computed positions."""

from __future__ import annotations

import numpy as np
from mlir import ir

from .....dialects.stepwell.elementwise import AddOp, ModOp
from .....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp
from .... import index_arithmetic as places
from ....build import cast, dims_of, emit, known_dim, normal_axis, rank
from ....errors import AttributeFault, NodeError
from ...nodes.data_checks import check_indices
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("Scatter")
@imports("ScatterElements", since=11)
def scatter_elements(node: Node, input: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    """ScatterElements: one index per update, along an axis."""
    if rank(indices) != rank(input) or rank(updates) != rank(input):
        raise NodeError(f"has indices of rank {rank(indices)} for an input of rank {rank(input)}")
    axis, reduction = normal_axis(node.attribute("axis"), rank(input)), node.attribute("reduction", "none")
    check_indices(node, indices, input, [axis])
    return places.with_elements(input, indices, updates, axis, reduction)


@imports("ScatterND")
def scatter_nd(node: Node, input: ir.Value, indices: ir.Value, updates: ir.Value) -> ir.Value:
    """ScatterND: each index addresses an element, or a slice, in the leading dimensions, which are merged."""
    depth = known_dim(indices, rank(indices) - 1, "the number of coordinates per index")
    if not 1 <= depth <= rank(input):
        raise NodeError(f"has indices of {depth} coordinates for an input of rank {rank(input)}")
    counts = [places.extent(input, axis) for axis in range(depth)]
    check_indices(node, indices, input, range(depth))
    named = places.named_coordinates(indices, 0, depth)
    chosen = [places.from_front(index, count) for index, count in zip(named, counts, strict=True)]
    place = places.unless_outside(places.flat(input, chosen), chosen, counts)
    return places.scattered(input, place, updates, depth, node.attribute("reduction", "none"))


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
    place = places.unless_outside(places.flat(past, coordinates), [place], [count])
    place = emit(DynamicBroadcastToOp, place, dims_of(update, 0, axis + 1))
    return places.scattered(past, place, update, axis + 1, "none")
