"""Parts of tensors: gathers, slices and splits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from mlir import ir

from .....dialects.dims import Dim, is_known
from .....dialects.stepwell.elementwise import LessOp, SelectOp, SubOp
from .....dialects.stepwell.movement import DynamicSliceOp, ExpandDimsOp, SliceOp
from .....sizes.extrema import is_surely_less
from .....support.wording import quantity
from .... import index_arithmetic as places
from ....build import cast, emit, gathered, integers, known_dim, normal_axis, rank, scalar, shape
from ....errors import NodeError
from ...nodes.data_checks import check_indices
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("Gather")
def gather(node: Node, input: ir.Value, indices: ir.Value) -> ir.Value:
    """Gather along one axis."""
    check_indices(node, indices, input, [normal_axis(node.attribute("axis"), rank(input))])
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
    """Split with the sizes as an input (opset 13), or into equal parts, the last of which (opset 18) may be smaller."""
    if sizes is not None:
        return _split(node, input, node.integers(sizes, "split"))
    return _split(node, input, _equal_sizes(node, input, node.attribute("num_outputs", len(node.outputs))))


def _equal_sizes(node: Node, input: ir.Value, count: int) -> tuple[Dim, ...]:
    extent = known_dim(input, normal_axis(node.attribute("axis"), rank(input)), "the extent of the split dimension")
    if count < 1 or (extent % count and node.opset < 18):
        raise NodeError(
            f"splits {quantity(extent, 'element')} into {quantity(count, 'part')}, which leaves a remainder"
        )
    size = -(-extent // count)
    return (*[size] * (count - 1), extent - size * (count - 1))


def _split(node: Node, input: ir.Value, sizes: Sequence[Dim]) -> tuple[ir.Value, ...]:
    if len(sizes) != len(node.outputs) or any(is_surely_less(size, 0) for size in sizes):
        raise NodeError(f"has the sizes {list(sizes)} for {quantity(len(node.outputs), 'output')}")
    axis = normal_axis(node.attribute("axis"), rank(input))
    stops = itertools.accumulate(sizes)
    return tuple(_between(input, axis, stop - size, stop) for stop, size in zip(stops, sizes, strict=True))


def _between(input: ir.Value, axis: int, start: Dim, stop: Dim) -> ir.Value:
    """The elements from `start` up to and excluding `stop` along an axis; neither counts from the end."""
    extents = shape(input)
    if not all(map(is_known, extents)):
        return emit(DynamicSliceOp, input, integers([start]), integers([stop]), integers([axis]))
    starts: list[Dim] = [0] * len(extents)
    stops = list(extents)
    starts[axis], stops[axis] = start, stop
    return emit(SliceOp, input, starts=tuple(starts), stops=tuple(stops), steps=(1,) * len(extents))


@imports("GatherND")
def gather_nd(node: Node, input: ir.Value, indices: ir.Value) -> ir.Value:
    """GatherND: each index addresses an element or slice in the dimensions after the batches, which are merged.

    [a, b, c...] at [..., 2] --> [a * b, c...] at [...]
    """
    batches = node.attribute("batch_dims", 0)
    depth = known_dim(indices, rank(indices) - 1, "the number of coordinates per index")
    if not 0 <= batches < min(rank(input), rank(indices)) or not 1 <= depth <= rank(input) - batches:
        raise NodeError(
            f"has indices of {depth} coordinates after {batches} batch dimensions for an input of rank {rank(input)}"
        )
    count = batches + depth
    check_indices(node, indices, input, range(batches, batches + depth))
    named = places.named_coordinates(indices, batches, depth)
    inside = [places.inside(named[axis], places.extent(input, axis)) for axis in range(batches, count)]
    return gathered(places.merged(input, count), places.flat(input, [*named[:batches], *inside]), 0)


@imports("GatherElements")
def gather_elements(node: Node, input: ir.Value, indices: ir.Value) -> ir.Value:
    """GatherElements: one index per element of the result, along an axis; computed as a gather from the flat tensor."""
    if rank(indices) != rank(input):
        raise NodeError(f"has indices of rank {rank(indices)} for an input of rank {rank(input)}")
    axis = normal_axis(node.attribute("axis"), rank(input))
    check_indices(node, indices, input, [axis])
    return places.elements(input, indices, axis)


@imports("ReverseSequence")
def reverse_sequence(node: Node, input: ir.Value, lengths: ir.Value) -> ir.Value:
    """ReverseSequence: reverses the first `lengths` elements of each batch; the others stay.

    [t, b, c...] --> [t * b, c...] at rows counted down from the length
    """
    time, batch = node.attribute("time_axis"), node.attribute("batch_axis")
    if sorted((time, batch)) != [0, 1] or rank(input) < 2:
        raise NodeError(f"attributes 'time_axis' and 'batch_axis' must be 0 and 1, but are {time} and {batch}")
    step, row = (places.numbers(input, axis, 2) for axis in (time, batch))
    count = emit(ExpandDimsOp, cast(lengths, np.int64), axes=(time,))
    last = emit(SubOp, count, scalar(1, count))
    reordered = emit(SelectOp, emit(LessOp, step, count), emit(SubOp, last, step), step)
    inside = places.inside(reordered, places.extent(input, time))
    place = places.flat(input, [inside, row] if time == 0 else [row, inside])
    return gathered(places.merged(input, 2), place, 0)
