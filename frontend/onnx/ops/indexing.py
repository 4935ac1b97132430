"""Taking parts of tensors: gathers, slices and splits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import AddOp, LessOp, MulOp, SelectOp
from ....dialects.stepwell.movement import DynamicSliceOp
from ...errors import NodeError, UnsupportedError
from ..build import (
    cast,
    constant,
    dims_of,
    emit,
    gathered,
    integers,
    joined,
    known_dim,
    normal_axis,
    rank,
    reshaped,
    scalar,
    shape,
)
from ..node import Node
from ..registry import imports


@imports("Gather")
def gather(node: Node, input: ir.Value, indices: ir.Value) -> ir.Value:
    """Gather along one axis."""
    return gathered(input, indices, node.attribute("axis"))


@imports("Slice")
def slice_by_attributes(node: Node, input: ir.Value) -> ir.Value:
    """Slice with attributes (opset 1)."""
    starts, ends = node.attribute("starts"), node.attribute("ends")
    axes = node.attribute("axes", tuple(range(len(starts))))
    return emit(DynamicSliceOp, input, *map(integers, (starts, ends, axes)))


@imports("Slice", since=10)
def slice_by_inputs(
    node: Node,
    input: ir.Value,
    starts: ir.Value,
    ends: ir.Value,
    axes: ir.Value | None = None,
    steps: ir.Value | None = None,
) -> ir.Value:
    """Slice with inputs (opset 10)."""
    bounds = (None if value is None else cast(value, np.int64) for value in (starts, ends, axes, steps))
    return emit(DynamicSliceOp, input, *bounds)


@imports("Split")
def split_by_attribute(node: Node, input: ir.Value) -> tuple[ir.Value, ...]:
    """Split with the sizes as an attribute (opset 2), or into equal parts."""
    sizes = node.attribute("split")
    return _split(node, input, _equal_sizes(node, input, len(node.outputs)) if sizes is None else sizes)


@imports("Split", since=13)
def split_by_input(node: Node, input: ir.Value, sizes: ir.Value | None = None) -> tuple[ir.Value, ...]:
    """Split with the sizes as an input (opset 13), or into equal parts, the last one (opset 18) perhaps smaller."""
    if sizes is not None:
        return _split(node, input, node.integers(sizes, "split"))
    return _split(node, input, _equal_sizes(node, input, node.attribute("num_outputs", len(node.outputs))))


def _equal_sizes(node: Node, input: ir.Value, count: int) -> tuple[int, ...]:
    extent = known_dim(input, normal_axis(node.attribute("axis"), rank(input)), "the extent of the split dimension")
    if count < 1 or (extent % count and node.opset < 18):
        raise NodeError(f"splits {extent} elements into {count} parts, which is not possible without a remainder")
    size = -(-extent // count)
    return (*[size] * (count - 1), extent - size * (count - 1))


def _split(node: Node, input: ir.Value, sizes: Sequence[int]) -> tuple[ir.Value, ...]:
    if len(sizes) != len(node.outputs) or min(sizes, default=0) < 0:
        raise NodeError(f"has the sizes {list(sizes)} for {len(node.outputs)} outputs")
    axis = normal_axis(node.attribute("axis"), rank(input))
    stops = np.cumsum(sizes).tolist()
    return tuple(
        emit(DynamicSliceOp, input, integers([stop - size]), integers([stop]), integers([axis]))
        for stop, size in zip(stops, sizes, strict=True)
    )


@imports("GatherND")
def gather_nd(node: Node, input: ir.Value, indices: ir.Value) -> ir.Value:
    """GatherND: each index names an element, or a slice, of the leading dimensions; those are one here.

    [a, b, c...] at [..., 2] --> [a * b, c...] at [...]
    """
    if node.attribute("batch_dims", 0):
        raise UnsupportedError("attribute 'batch_dims' is not supported")
    depth = known_dim(indices, rank(indices) - 1, "the number of dimensions that an index names")
    leading = node.static(shape(input)[:depth], "the extents of the dimensions that are indexed")
    flat = joined([integers([math.prod(leading)]), dims_of(input, depth, rank(input))])
    stride, place = math.prod(leading), None
    for axis, extent in enumerate(leading):
        stride //= max(extent, 1)
        index = _from_front(gathered(cast(indices, np.int64), constant(np.array(axis)), -1), extent)
        index = emit(MulOp, index, scalar(stride, index))
        place = index if place is None else emit(AddOp, place, index)
    if place is None:
        raise NodeError("has indices that name no dimension")
    return gathered(reshaped(input, flat), place, 0)


@imports("GatherElements")
def gather_elements(node: Node, input: ir.Value, indices: ir.Value) -> ir.Value:
    """GatherElements: one index per element of the result, along an axis; here into the flat tensor.

    [a, b] at i [a, k] along 1 --> [a * b] at row * b + i
    """
    extents = node.static(shape(input), "the extents of the input")
    wanted = node.static(shape(indices), "the extents of the indices")
    chosen = normal_axis(node.attribute("axis"), len(extents))
    place = _from_front(cast(indices, np.int64), extents[chosen])
    place = emit(MulOp, place, scalar(math.prod(extents[chosen + 1 :]), place))
    for axis, count in enumerate(wanted):
        if axis != chosen:
            offsets = np.arange(count).reshape(-1, *[1] * (len(wanted) - 1 - axis)) * math.prod(extents[axis + 1 :])
            place = emit(AddOp, place, node.importer.weight(f"{node.name}.offsets", offsets))
    return gathered(reshaped(input, integers([math.prod(extents)])), place, 0)


def _from_front(indices: ir.Value, extent: int) -> ir.Value:
    """Indices that count from the front, negative ones included."""
    zero = scalar(0, indices)
    return emit(SelectOp, emit(LessOp, indices, zero), emit(AddOp, indices, scalar(extent, indices)), indices)
