"""Operators that keep some elements, whose number depends on data."""

from __future__ import annotations

import numpy as np
from mlir import ir

from .....dialects.stepwell.boxes import JoinRowsOp, SuppressOp
from .....dialects.stepwell.elementwise import AddOp, MaximumOp
from .....dialects.stepwell.grouping import NumberGroupsOp, SortRowsOp, SummarizeGroupsOp
from .....dialects.stepwell.movement import SliceOp
from .....dialects.stepwell.reduction import ReduceMaxOp, ReduceSumOp
from .....dialects.stepwell.selecting import CompressOp, NonZeroOp
from .....dialects.stepwell.sorting import TopKOp
from .....dialects.types import byte_integer, is_tiny_float
from .....sizes import extrema
from .....sizes.algebra import bounds
from .... import index_arithmetic as places
from ....build import (
    cast,
    constant,
    dtype,
    emit,
    flattened,
    gathered,
    integers,
    known_dim,
    normal_axis,
    part_along,
    rank,
    reshaped,
    shape,
    transposed,
)
from ....errors import NodeError
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("NonZero")
def nonzero(node: Node, input: ir.Value) -> ir.Value:
    """NonZero; of contents that are known, the result has its exact size."""
    known = node.known(input)
    if known is not None:
        return node.table("places", NonZeroOp.reference(known != 0)[:, : np.count_nonzero(known)])
    if 0 in shape(input):
        return constant(np.zeros((rank(input), 0), np.int64))
    mask = cast(input, np.bool_)
    result = emit(NonZeroOp, mask)
    node.importer.counts.add(result, 1, _total(mask))
    return result


@imports("Compress")
def compress(node: Node, input: ir.Value, condition: ir.Value) -> ir.Value:
    """Compress along an axis, or of the flat input; further conditions than slices are ignored."""
    axis = node.attribute("axis")
    if axis is None:
        input, axis = places.merged(input, rank(input)), 0
    axis = normal_axis(axis, rank(input))
    if rank(condition) != 1:
        raise NodeError(f"has a condition of rank {rank(condition)}, which must be 1")
    extent = known_dim(input, axis, "the extent of the dimension that is compressed")
    known = node.known(condition)
    if known is not None:
        return gathered(input, node.table("places", np.flatnonzero(known[:extent])), axis)
    length = known_dim(condition, 0, "the number of conditions")
    if length != extent:
        shorter = extrema.least([extent, length])
        condition = emit(SliceOp, condition, starts=(0,), stops=(shorter,), steps=(1,))
    result = emit(CompressOp, input, condition, axis=axis)
    node.importer.counts.add(result, axis, _total(condition))
    return result


def _total(mask: ir.Value) -> ir.Value:
    """The number of elements that are true."""
    return emit(ReduceSumOp, cast(mask, np.int64), axes=tuple(range(rank(mask))), keepdims=False)


@imports("NonMaxSuppression")
def non_max_suppression(
    node: Node,
    boxes: ir.Value,
    scores: ir.Value,
    most: ir.Value | None = None,
    overlap: ir.Value | None = None,
    least: ir.Value | None = None,
) -> ir.Value:
    """NonMaxSuppression: the remaining boxes of each class, then their batch, class and index as rows."""
    count = known_dim(boxes, 1, "the number of boxes")
    known = np.array(0) if most is None else node.known(most)
    limit = None if known is not None or most is None else _scalar(most)
    greatest = bounds(count, {})[1]
    room = count if greatest is None else greatest
    if known is not None:
        wanted = max(int(known.reshape(-1)[0]), 0)
        room = wanted if greatest is None else min(wanted, greatest)
    thresholds = (None if value is None else _scalar(value) for value in (overlap, least))
    is_center = bool(node.attribute("center_point_box"))
    kept = emit(SuppressOp, boxes, scores, limit, *thresholds, most=room, is_center=is_center)
    result = emit(JoinRowsOp, kept)
    total = emit(ReduceSumOp, part_along(kept, 2, room, room + 1), axes=(0, 1, 2), keepdims=False)
    node.importer.counts.add(result, 0, total)
    return result


def _scalar(value: ir.Value) -> ir.Value:
    """A tensor of one element as a scalar."""
    return reshaped(value, integers([]))


@imports("Unique")
def unique(node: Node, input: ir.Value) -> tuple[ir.Value, ...]:
    """Unique elements, or slices along an axis: these, the index of the first one, the inverse, and their counts."""
    axis, is_sorted = node.attribute("axis"), bool(node.attribute("sorted", 1))
    if axis is None:
        input, axis = places.merged(input, rank(input)), 0
        members = input
    else:
        axis = normal_axis(axis, rank(input))
        order = [axis, *(other for other in range(rank(input)) if other != axis)]
        members = flattened(transposed(input, order), 1)
    return _unique(node, input, members, axis, is_sorted)


@imports("Unique", domain="com.microsoft")
def unique_in_order(node: Node, input: ir.Value) -> tuple[ir.Value, ...]:
    """ONNX Runtime's Unique of a list: the elements in order of first occurrence, the inverse, and their counts."""
    values, _, inverse, counts = _unique(node, input, input, 0, is_sorted=False)
    return values, inverse, counts


def _unique(node: Node, input: ir.Value, members: ir.Value, axis: int, is_sorted: bool) -> tuple[ir.Value, ...]:
    """The outputs of Unique.

    Args:
        node: the node.
        input: the input.
        members: the elements that are compared, [element], or the slices as [slice, element].
        axis: the dimension of the input along which they lie.
        is_sorted: whether the results are in ascending order; else in the order of first occurrence.
    """
    count = known_dim(members, 0, "the number of elements or slices that are compared")
    if count == 0:
        return (input, *[constant(np.zeros(0, np.int64))] * 3)
    keys = _comparable(members)
    is_single = rank(members) == 1 or shape(members)[1] == 1
    if is_single:
        order = emit(TopKOp, reshaped(keys, integers([count])), k=count, largest=False)
    else:
        order = emit(SortRowsOp, keys)
    inverse = emit(NumberGroupsOp, keys, order, is_sorted=is_sorted)
    first, sizes = (emit(SummarizeGroupsOp, inverse, fact=fact) for fact in ("first", "size"))
    values = gathered(input, first, axis)
    total = emit(AddOp, emit(ReduceMaxOp, inverse, axes=(0,), keepdims=False), constant(np.array(1, np.int64)))
    if not isinstance(count, int):  # which may be 0
        total = emit(MaximumOp, total, constant(np.array(0, np.int64)))
    for value, along in ((values, axis), (first, 0), (sizes, 0)):
        node.importer.counts.add(value, along, total)
    return values, first, inverse, sizes


def _comparable(value: ir.Value) -> ir.Value:
    """Elements of less than a byte, and floats of a byte, in a wider type."""
    kind = dtype(value)
    if is_tiny_float(kind):
        return cast(value, np.float32)
    return cast(value, byte_integer(kind))
