"""Rules that make movement ops correct for every size: offsets that depend on sizes are read from the table."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ....dialects import discardable
from ....dialects.dims import Dim, ceil_div
from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.elementwise import AddOp, CastOp, LessOp, MaximumOp, MinimumOp, SelectOp, SubOp
from ....dialects.stepwell.movement import (
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
from ...ir.rewriting import defining_op
from ..values import constant, dtype_of, static_shape
from .checks import require_same
from .extents import Extent, count_of, is_dynamic, prefix, regroup, size_of, whole
from .layout import agree, compact_all, compacted, is_apart, located, rearranged, set_operands
from .rewriter import PADDING, Rewriter, replace
from .rules import Result, States
from .snapshot import BoundedError, listed, numbered

_INDEX = np.dtype(np.int64)


@PADDING.attach(TransposeOp)
def transpose(graph: Rewriter, op: TransposeOp, states: States) -> Result:
    """The dimensions in permuted order."""
    require_same(states)
    extents = graph.of(op.input)
    return [[extents[axis] for axis in op.permutation]]


@PADDING.attach(ReshapeOp)
def reshape(graph: Rewriter, op: ReshapeOp, states: States) -> Result | None:
    """Varying dimensions may be merged and split again in place; for any other grouping the data is moved."""
    shape = static_shape(op.result) or ()
    found = regroup(graph.of(op.input), shape, graph.divided)
    if found is not None:
        return [found]
    replace(op, rearranged(graph, op.input, [_fitted(graph, states, axis, size) for axis, size in enumerate(shape)]))
    return None


@PADDING.attach(BroadcastToOp)
def broadcast_to(graph: Rewriter, op: BroadcastToOp, states: States) -> Result:
    """The input's dimensions; new ones as fitted from the samples."""
    shape = static_shape(op.result) or ()
    extents = graph.of(op.input)
    found = [_fitted(graph, states, axis, size) for axis, size in enumerate(shape)]
    for axis, extent in enumerate(extents, len(shape) - len(extents)):
        if size_of(extent) == shape[axis]:
            found[axis] = extent
    return [found]


def _fitted(graph: Rewriter, states: States, axis: int, size: int) -> Extent:
    return prefix(graph.fit([state.shapes[0][axis] for state in states], "an extent"), size)


@PADDING.attach(TileOp)
def tile(graph: Rewriter, op: TileOp, states: States) -> Result:
    """Repeats along static dimensions only."""
    require_same(states)
    extents = graph.of(op.input)
    if any(count > 1 and is_dynamic(extent) for count, extent in zip(op.repeats, extents, strict=True)):
        raise BoundedError("it repeats a varying dimension")
    sizes = static_shape(op.result) or ()
    return [
        [extent if count == 1 else whole(size) for extent, count, size in zip(extents, op.repeats, sizes, strict=True)]
    ]


@PADDING.attach(ConcatOp)
def concat(graph: Rewriter, op: ConcatOp, states: States) -> Result | None:
    """Concatenates at the bounds; if the first part varies, the second one is copied to where the first one ends."""
    require_same(states)
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
    replace(op, made)
    return None


def _gathered(graph: Rewriter, value: ir.Value, indices: ir.Value, axis: int, extents: list[Extent]) -> ir.Value:
    """The elements of `value` at `indices` along `axis`; indices are clamped."""
    last = (static_shape(value) or ())[axis] - 1
    inside = graph.noted(MinimumOp(indices, constant(np.array(last))))
    inside = graph.noted(MaximumOp(inside, constant(np.array(0))))
    return graph.noted(GatherOp(value, inside, axis=axis, extent=graph.end_of(graph.of(value)[axis])), extents)


@PADDING.attach(SliceOp)
def slice_(graph: Rewriter, op: SliceOp, states: States) -> Result | None:
    """A slice with constant starts stays a slice; others become gathers."""
    require_same(states, but=("starts", "stops"))
    cut = [axis for axis, size in enumerate(static_shape(op.result) or ()) if not _takes_all(states, axis, size)]
    op.operation.operands[0] = compacted(graph, op.input, cut)
    extents = graph.of(op.input)
    value, found = op.input, list(extents)
    shape = static_shape(op.result) or ()
    is_static = True
    for axis, extent in enumerate(extents):
        start = graph.fit([state.attributes["starts"][axis] for state in states], "the start of a slice")
        stop = graph.fit([state.attributes["stops"][axis] for state in states], "the end of a slice")
        step = op.steps[axis]
        _check_inside(graph, start, stop, count_of(extent))
        for place in (start, stop):
            graph.fitter.look_at_the_least(place)
        if isinstance(start, int) and isinstance(stop, int):
            if is_dynamic(extent) and stop > graph.least(count_of(extent)):
                raise BoundedError(f"a slice up to {stop} of a dimension that may be smaller")
            found[axis] = whole(shape[axis])
        elif start == 0 and step == 1 and stop == count_of(extent):
            found[axis] = extent
        else:
            found[axis] = prefix(ceil_div(stop - start, step), shape[axis])
            is_static = is_static and isinstance(start, int)
    if is_static:
        return [found]
    replace(op, _gathered_slice(graph, op, states, value, found))
    return None


def _check_inside(graph: Rewriter, start: Dim, stop: Dim, extent: Dim) -> None:
    """Checks that a slice lies within its dimension even at the smallest sizes, where a model would crop it.

    Within the dimension, start and stop are the model's expressions; cropped ends are not expressions over sizes.
    """
    places = [graph.least(dim) for dim in (start, stop, extent)]
    if not 0 <= places[0] <= places[1] <= places[2]:
        where = listed({name: low for name, (low, _, _) in graph.ranges.items()})
        raise BoundedError(
            f"a slice from {start} to {stop} of {extent} elements is cropped at {where}; let the range start higher"
        )


def _takes_all(states: States, axis: int, size: int) -> bool:
    """Returns whether a slice takes the whole dimension in every sample."""
    first = states[0].attributes
    is_whole = (first["starts"][axis], first["stops"][axis], first["steps"][axis]) == (0, size, 1)
    return is_whole and all(state.attributes["stops"][axis] == state.shapes[0][axis] for state in states)


def _gathered_slice(graph: Rewriter, op: SliceOp, states: States, value: ir.Value, found: list[Extent]) -> ir.Value:
    shape = static_shape(op.result) or ()
    now = graph.of(value)
    for axis, size in enumerate(shape):
        start = graph.fit([state.attributes["starts"][axis] for state in states], "the start of a slice")
        places = constant(numbered(size) * op.steps[axis])
        indices = graph.noted(AddOp(places, graph.number(start, _INDEX)))
        now = [*now[:axis], found[axis], *now[axis + 1 :]]
        value = _gathered(graph, value, indices, axis, now)
    return value


@PADDING.attach(ReverseOp)
def reverse(graph: Rewriter, op: ReverseOp, states: States) -> Result | None:
    """Along a varying dimension, gathers from the last data element backwards."""
    require_same(states)
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
def gather(graph: Rewriter, op: GatherOp, states: States) -> None:
    """Sets indices beyond the data to 0, as they may be invalid; negative ones count from the end of the data.

    The runtime checks that indices in inputs are valid. If data lies in separate parts and there are no more indices
    than elements, the indices are converted to the layout; otherwise the data is compacted.
    """
    require_same(states)
    axis = op.axis % len(graph.of(op.input))
    indices = graph.of(op.indices)
    if math.prod(map(size_of, indices)) > size_of(graph.of(op.input)[axis]):
        op.operation.operands[0] = compacted(graph, op.input, [axis])
    data = graph.of(op.input)
    index = op.indices
    if not isinstance(index.owner, ir.Block) and defining_op(index, ConstantOp) is None:
        index = graph.keep(index, range(len(indices)), 0.0)
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
def row(graph: Rewriter, op: RowOp, states: States) -> Result:
    """The other dimensions; rows without data are never read."""
    require_same(states)
    extents = graph.of(op.input)
    if is_dynamic(extents[0]) and not is_apart(extents[0]):
        entry = graph.entry(count_of(extents[0]))
        discardable.ROWS.write(op.operation, entry)
    return [extents[1:]]


@PADDING.attach(WithRowOp)
def with_row(graph: Rewriter, op: WithRowOp, states: States) -> Result:
    """The dimensions of the tensor."""
    require_same(states)
    return [graph.of(op.input)]
