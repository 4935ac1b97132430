"""Rules that make movement ops correct for every size: offsets that depend on sizes are read from the table."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ...dialects import discardable
from ...dialects.dims import Dim, ceil_div
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.elementwise import AddOp, CastOp, LessOp, MaximumOp, MinimumOp, ModOp, SelectOp, SubOp
from ...dialects.stepwell.movement import (
    AppendOp,
    BroadcastToOp,
    ConcatOp,
    GatherOp,
    ReshapeOp,
    ReverseOp,
    RowOp,
    SliceOp,
    TileOp,
    TransposeOp,
    WithRowOp,
)
from ..graph.values import constant, dtype_of, static_shape
from ..ir.rewriting import defining_op
from .checks import require_static_attributes
from .errors import RangesError
from .extents import Extent, count_of, is_dynamic, numbered, prefix, regroup, size_of, whole
from .layout import agree, compact_all, compacted, is_apart, located, rearranged, set_operands
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState

_INDEX = np.dtype(np.int64)


@PADDING.attach(TransposeOp)
def transpose(graph: Rewriter, op: TransposeOp, state: OpState) -> ResultExtents:
    """The dimensions in permuted order."""
    require_static_attributes(state)
    extents = graph.of(op.input)
    return [[extents[axis] for axis in op.permutation]]


@PADDING.attach(ReshapeOp)
def reshape(graph: Rewriter, op: ReshapeOp, state: OpState) -> ResultExtents | None:
    """Varying dimensions may be merged and split again in place; for any other grouping the data is moved."""
    shape = static_shape(op.result) or ()
    found = regroup(graph.of(op.input), shape, graph.divided)
    if found is not None:
        return [found]
    replace(op, rearranged(graph, op.input, [_extent(graph, state, axis, size) for axis, size in enumerate(shape)]))
    return None


@PADDING.attach(BroadcastToOp)
def broadcast_to(graph: Rewriter, op: BroadcastToOp, state: OpState) -> ResultExtents:
    """The input's dimensions, and new ones."""
    shape = static_shape(op.result) or ()
    extents = graph.of(op.input)
    found = [_extent(graph, state, axis, size) for axis, size in enumerate(shape)]
    for axis, extent in enumerate(extents, len(shape) - len(extents)):
        if size_of(extent) == shape[axis]:
            found[axis] = extent
    return [found]


def _extent(graph: Rewriter, state: OpState, axis: int, size: int) -> Extent:
    return prefix(state.shapes[0][axis], size)


@PADDING.attach(TileOp)
def tile(graph: Rewriter, op: TileOp, state: OpState) -> ResultExtents | None:
    """Repeats static dimensions any number of times, and varying ones by a gather."""
    require_static_attributes(state, but=("repeats",))
    repeats = state.attributes["repeats"]
    varying = [axis for axis, extent in enumerate(graph.of(op.input)) if repeats[axis] != 1 and is_dynamic(extent)]
    op.operation.operands[0] = compacted(graph, op.input, varying)
    extents, sizes = graph.of(op.input), static_shape(op.result) or ()
    found = [
        extent if count == 1 else prefix(count_of(extent) * count, size)
        for extent, count, size in zip(extents, repeats, sizes, strict=True)
    ]
    if not varying:
        return [found]
    rest = tuple(1 if axis in varying else count for axis, count in enumerate(op.repeats))
    tiled = [extents[axis] if axis in varying else extent for axis, extent in enumerate(found)]
    value = graph.noted(TileOp(op.input, repeats=rest), tiled) if any(count != 1 for count in rest) else op.input
    for axis in varying:
        positions = constant(numbered(sizes[axis]))
        indices = graph.noted(ModOp(positions, graph.number(count_of(extents[axis]), _INDEX)))
        tiled = [*graph.of(value)[:axis], found[axis], *graph.of(value)[axis + 1 :]]
        value = _gathered(graph, value, indices, axis, tiled)
    replace(op, value)
    return None


@PADDING.attach(ConcatOp)
def concat(graph: Rewriter, op: ConcatOp, state: OpState) -> ResultExtents | None:
    """Concatenates at the bounds; if the first part varies, the second one is copied to where the first one ends."""
    require_static_attributes(state)
    rank = len(graph.of(op.lhs))
    axis = op.axis % rank
    for dim in range(rank):
        operands = list(op.operation.operands)
        values = compact_all(graph, operands, dim) if dim == axis else agree(graph, operands, [dim, dim])
        set_operands(op, values)
    parts = [graph.of(value) for value in op.operation.operands]
    found = [next((part[dim] for part in parts if is_dynamic(part[dim])), parts[0][dim]) for dim in range(rank)]
    first, second = (part[axis] for part in parts)
    total = count_of(first) + count_of(second)
    found[axis] = prefix(total, size_of(first) + size_of(second))
    if not is_dynamic(first):
        return [found]
    ends = (graph.end_of(first), graph.end_of(second))
    made = graph.noted(AppendOp(op.lhs, op.rhs, graph.table, axis=axis, ends=ends), found)
    graph.is_bordered(made, axis, made, 0.0)
    replace(op, with_room(graph, made, axis, (static_shape(op.result) or ())[axis]))
    return None


def with_room(graph: Rewriter, value: ir.Value, axis: int, room: int) -> ir.Value:
    """The first `room` elements of a dimension, which hold all data: of n and 64 - n elements, each up to 63."""
    extents = graph.of(value)
    if size_of(extents[axis]) == room:
        return value
    stops = tuple(room if dim == axis else size_of(extent) for dim, extent in enumerate(extents))
    found = [*extents[:axis], prefix(count_of(extents[axis]), room), *extents[axis + 1 :]]
    ones, zeros = (1,) * len(stops), (0,) * len(stops)
    return graph.noted(SliceOp(value, starts=zeros, stops=stops, steps=ones), found)


def _gathered(graph: Rewriter, value: ir.Value, indices: ir.Value, axis: int, extents: list[Extent]) -> ir.Value:
    """The elements of `value` at `indices` along `axis`; indices are clamped."""
    last = (static_shape(value) or ())[axis] - 1
    inside = graph.noted(MinimumOp(indices, constant(np.array(last))))
    inside = graph.noted(MaximumOp(inside, constant(np.array(0))))
    return graph.noted(GatherOp(value, inside, axis=axis, extent=graph.end_of(graph.of(value)[axis])), extents)


@PADDING.attach(SliceOp)
def slice_(graph: Rewriter, op: SliceOp, state: OpState) -> ResultExtents | None:
    """A slice with constant starts stays a slice; others become gathers."""
    require_static_attributes(state, but=("starts", "stops"))
    cut = [axis for axis, extent in enumerate(graph.of(op.input)) if not _takes_all(state, axis, count_of(extent))]
    op.operation.operands[0] = compacted(graph, op.input, cut)
    extents = graph.of(op.input)
    value, found = op.input, list(extents)
    shape = static_shape(op.result) or ()
    is_static = True
    for axis, extent in enumerate(extents):
        start = state.attributes["starts"][axis]
        stop = state.attributes["stops"][axis]
        step = op.steps[axis]
        if isinstance(start, int) and isinstance(stop, int):
            if is_dynamic(extent) and stop > graph.units.least(count_of(extent)):
                raise RangesError(f"a slice up to {stop} of a dimension that may be smaller")
            found[axis] = whole(shape[axis])
        elif start == 0 and step == 1 and stop == count_of(extent):
            found[axis] = extent
        else:
            found[axis] = prefix(ceil_div(stop - start, step), shape[axis])
            is_static = is_static and isinstance(start, int)
    if is_static:
        return [found]
    replace(op, _gathered_slice(graph, op, state, value, found))
    return None


def _takes_all(state: OpState, axis: int, extent: Dim) -> bool:
    """Returns whether a slice takes the whole dimension."""
    given = state.attributes
    return (given["starts"][axis], given["stops"][axis], given["steps"][axis]) == (0, extent, 1)


def _gathered_slice(graph: Rewriter, op: SliceOp, state: OpState, value: ir.Value, found: list[Extent]) -> ir.Value:
    shape = static_shape(op.result) or ()
    now = graph.of(value)
    for axis, size in enumerate(shape):
        start = state.attributes["starts"][axis]
        positions = constant(numbered(size) * op.steps[axis])
        indices = graph.noted(AddOp(positions, graph.number(start, _INDEX)))
        now = [*now[:axis], found[axis], *now[axis + 1 :]]
        value = _gathered(graph, value, indices, axis, now)
    return value


@PADDING.attach(ReverseOp)
def reverse(graph: Rewriter, op: ReverseOp, state: OpState) -> ResultExtents | None:
    """Along a varying dimension, gathers from the last data element backwards."""
    require_static_attributes(state)
    extents = graph.of(op.input)
    axes = [axis % len(extents) for axis in op.axes]
    varying = [axis for axis in axes if is_dynamic(extents[axis])]
    if not varying:
        return [extents]
    rest = tuple(axis for axis in axes if axis not in varying)
    value = graph.noted(ReverseOp(op.input, axes=rest), extents) if rest else op.input
    value = compacted(graph, value, varying)
    extents = graph.of(value)
    for axis in varying:
        last = graph.number(count_of(extents[axis]) - 1, _INDEX)
        indices = graph.noted(SubOp(last, constant(numbered(size_of(extents[axis])))))
        value = _gathered(graph, value, indices, axis, extents)
    replace(op, value)
    return None


@PADDING.attach(GatherOp)
def gather(graph: Rewriter, op: GatherOp, state: OpState) -> None:
    """Sets indices beyond the data to 0, as they may be invalid; negative ones count from the end of the data.

    The runtime checks that indices in inputs are valid. If data lies in separate parts and there are no more indices
    than elements, the indices are converted to the layout; otherwise the data is compacted.
    """
    require_static_attributes(state)
    axis = op.axis % len(graph.of(op.input))
    indices = graph.of(op.indices)
    if math.prod(map(size_of, indices)) > size_of(graph.of(op.input)[axis]):
        op.operation.operands[0] = compacted(graph, op.input, [axis])
    data = graph.of(op.input)
    index = op.indices
    if not isinstance(index.owner, ir.Block) and defining_op(index, ConstantOp) is None:
        index = graph.masked(index, range(len(indices)), 0.0)
    if is_dynamic(data[axis]):
        zero = constant(np.zeros((), dtype_of(index)))
        end = graph.number(count_of(data[axis]), dtype_of(index))
        from_end = graph.noted(AddOp(index, end), indices)
        index = graph.noted(SelectOp(graph.noted(LessOp(index, zero), indices), from_end, index), indices)
    if is_apart(data[axis]):
        wide = index if dtype_of(index) == _INDEX else graph.noted(CastOp(index, dtype=_INDEX), indices)
        index = located(graph, wide, data[axis], indices)
    found = [*data[:axis], *indices, *data[axis + 1 :]]
    replace(op, graph.noted(GatherOp(op.input, index, axis=axis, extent=graph.end_of(data[axis])), found))
    return None


@PADDING.attach(RowOp)
def row(graph: Rewriter, op: RowOp, state: OpState) -> ResultExtents:
    """The other dimensions; rows without data are never read."""
    require_static_attributes(state)
    extents = graph.of(op.input)
    if is_dynamic(extents[0]) and not is_apart(extents[0]):
        entry = graph.entry(count_of(extents[0]))
        discardable.ROWS.write(op.operation, entry)
    return [extents[1:]]


@PADDING.attach(WithRowOp)
def with_row(graph: Rewriter, op: WithRowOp, state: OpState) -> ResultExtents:
    """The dimensions of the tensor."""
    require_static_attributes(state)
    return [graph.of(op.input)]
