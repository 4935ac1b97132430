"""What movement needs to be right for every size: offsets that depend on sizes are looked up at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.dims import ceil_div
from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.elementwise import AddOp, LessOp, MaximumOp, MinimumOp, SelectOp, SubOp
from ....dialects.stepwell.movement import (
    BroadcastToOp,
    ConcatOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ResizeOp,
    ReverseOp,
    RowOp,
    SliceOp,
    TileOp,
    TransposeOp,
    WithRowOp,
)
from ...rewriting import defining_op
from ..values import constant, dtype_of, shape_of
from .extents import Extent, count_of, is_dynamic, regroup, size_of, whole
from .projections import repeats_elements
from .rewriter import Rewriter, Rule, prefix, replace, require_same
from .rules import Result, States
from .snapshot import BoundedError

_INDEX = np.dtype(np.int64)


def transpose(graph: Rewriter, op: TransposeOp, states: States) -> Result:
    """The dimensions in another order."""
    require_same(states)
    extents = graph.of(op.input)
    return [[extents[axis] for axis in op.permutation]]


def reshape(graph: Rewriter, op: ReshapeOp, states: States) -> Result:
    """Dimensions that vary may be merged with others and separated again, not cut."""
    found = regroup(graph.of(op.input), shape_of(op.result) or ())
    if found is None:
        shapes = " to ".join("x".join(map(str, shape_of(value) or ())) for value in (op.input, op.result))
        raise BoundedError(f"a dimension that varies is cut by a reshape ({shapes})")
    return [found]


def broadcast_to(graph: Rewriter, op: BroadcastToOp, states: States) -> Result:
    """The input's dimensions; new ones as the sizes say."""
    shape = shape_of(op.result) or ()
    extents = graph.of(op.input)
    found = [_fitted(graph, states, axis, size) for axis, size in enumerate(shape)]
    for axis, extent in enumerate(extents, len(shape) - len(extents)):
        if size_of(extent) == shape[axis]:
            found[axis] = extent
    return [found]


def _fitted(graph: Rewriter, states: States, axis: int, size: int) -> Extent:
    return prefix(graph.fit([state.shapes[0][axis] for state in states], "an extent"), size)


def tile(graph: Rewriter, op: TileOp, states: States) -> Result:
    """Repeats along dimensions that do not vary."""
    require_same(states)
    extents = graph.of(op.input)
    if any(count > 1 and is_dynamic(extent) for count, extent in zip(op.repeats, extents, strict=True)):
        raise BoundedError("a dimension that varies is repeated")
    sizes = shape_of(op.result) or ()
    return [
        [extent if count == 1 else whole(size) for extent, count, size in zip(extents, op.repeats, sizes, strict=True)]
    ]


def concat(graph: Rewriter, op: ConcatOp, states: States) -> Result | None:
    """What comes after a dimension that varies is read from where it is at the bounds."""
    require_same(states)
    parts = [graph.of(value) for value in op.operation.operands]
    rank = len(parts[0])
    axis = op.axis % rank
    found = [next((part[dim] for part in parts if is_dynamic(part[dim])), parts[0][dim]) for dim in range(rank)]
    first, second = (part[axis] for part in parts)
    total = count_of(first) + count_of(second)
    found[axis] = prefix(total, size_of(first) + size_of(second))
    if len(first) > 1 or len(second) > 1:
        raise BoundedError("dimensions that vary together are joined with others")
    if not is_dynamic(first):
        return [found]
    # The second part is where the first one's bound is.
    both = graph.noted(ConcatOp(op.lhs, op.rhs, axis=axis))
    graph.extents[both] = [whole(size) if dim == axis else found[dim] for dim, size in enumerate(shape_of(both) or ())]
    places = constant(np.arange(size_of(found[axis])))
    end = graph.number(count_of(first), _INDEX)
    gap = graph.noted(SubOp(constant(np.array(size_of(first))), end))
    later = graph.noted(AddOp(places, gap))
    indices = graph.noted(SelectOp(graph.noted(LessOp(places, end)), places, later))
    replace(op, _gathered(graph, both, indices, axis, found))
    return None


def _gathered(graph: Rewriter, value: ir.Value, indices: ir.Value, axis: int, extents: list[Extent]) -> ir.Value:
    """The elements of `value` at `indices` along `axis`; places outside are those at the edge."""
    last = (shape_of(value) or ())[axis] - 1
    inside = graph.noted(MinimumOp(indices, constant(np.array(last))))
    inside = graph.noted(MaximumOp(inside, constant(np.array(0))))
    return graph.noted(GatherOp(value, inside, axis=axis), extents)


def slice_(graph: Rewriter, op: SliceOp, states: States) -> Result | None:
    """A slice from a fixed start is one at the bounds; others are gathers."""
    require_same(states, but=("starts", "stops"))
    extents = graph.of(op.input)
    value, found = op.input, list(extents)
    shape = shape_of(op.result) or ()
    is_static = True
    for axis, extent in enumerate(extents):
        start = graph.fit([state.attributes["starts"][axis] for state in states], "where a slice starts")
        stop = graph.fit([state.attributes["stops"][axis] for state in states], "where a slice stops")
        step = op.steps[axis]
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


def _gathered_slice(graph: Rewriter, op: SliceOp, states: States, value: ir.Value, found: list[Extent]) -> ir.Value:
    shape = shape_of(op.result) or ()
    now = graph.of(value)
    for axis, size in enumerate(shape):
        start = graph.fit([state.attributes["starts"][axis] for state in states], "where a slice starts")
        places = constant(np.arange(size) * op.steps[axis])
        indices = graph.noted(AddOp(places, graph.number(start, _INDEX)))
        now = [*now[:axis], found[axis], *now[axis + 1 :]]
        value = _gathered(graph, value, indices, axis, now)
    return value


def reverse(graph: Rewriter, op: ReverseOp, states: States) -> Result | None:
    """Along a dimension that varies the last element that is data comes first."""
    require_same(states)
    extents = graph.of(op.input)
    axes = [axis % len(extents) for axis in op.axes]
    varying = [axis for axis in axes if is_dynamic(extents[axis])]
    if not varying:
        return [extents]
    rest = tuple(axis for axis in axes if axis not in varying)
    value = graph.noted(ReverseOp(op.input, axes=rest), extents) if rest else op.input
    for axis in varying:
        if len(extents[axis]) > 1:
            raise BoundedError("dimensions that vary together are reversed")
        last = graph.number(count_of(extents[axis]) - 1, _INDEX)
        indices = graph.noted(SubOp(last, constant(np.arange(size_of(extents[axis])))))
        value = _gathered(graph, value, indices, axis, extents)
    replace(op, value)
    return None


def pad(graph: Rewriter, op: PadOp, states: States) -> Result:
    """After the data comes the padding."""
    require_same(states)
    extents = graph.of(op.input)
    varying = [axis for axis, extent in enumerate(extents) if is_dynamic(extent) and op.low[axis] + op.high[axis]]
    if any(len(extents[axis]) > 1 for axis in varying):
        raise BoundedError("dimensions that vary together are padded")
    after = [axis for axis in varying if op.high[axis]]
    if after and op.mode != "constant":
        raise BoundedError(f"what comes after a dimension that varies is padded with mode {op.mode}")
    op.operation.operands[0] = graph.keep(op.input, after, op.value)
    shape = shape_of(op.result) or ()
    found = list(extents)
    for axis, extent in enumerate(extents):
        added = op.low[axis] + op.high[axis]
        if added:
            found[axis] = prefix(count_of(extent) + added, shape[axis])
    return [found]


def gather(graph: Rewriter, op: GatherOp, states: States) -> Result:
    """Indices without data are 0, as others may be anywhere; negative ones count from where the data ends.

    Those of inputs are such as exist: the runtime sees to that.
    """
    require_same(states)
    data, indices = graph.of(op.input), graph.of(op.indices)
    axis = op.axis % len(data)
    index = op.indices
    if not isinstance(index.owner, ir.Block) and defining_op(index, ConstantOp) is None:
        index = graph.keep(index, range(len(indices)), 0.0)
    if is_dynamic(data[axis]):
        if len(data[axis]) > 1:
            raise BoundedError("dimensions that vary together are indexed")
        zero = constant(np.zeros((), dtype_of(index)))
        end = graph.number(count_of(data[axis]), dtype_of(index))
        from_end = graph.noted(AddOp(index, end), indices)
        index = graph.noted(SelectOp(graph.noted(LessOp(index, zero), indices), from_end, index), indices)
    op.operation.operands[1] = index
    return [[*data[:axis], *indices, *data[axis + 1 :]]]


def row(graph: Rewriter, op: RowOp, states: States) -> Result:
    """The other dimensions; a row that holds no data is never asked for."""
    require_same(states)
    extents = graph.of(op.input)
    return [extents[1:]]


def with_row(graph: Rewriter, op: WithRowOp, states: States) -> Result:
    """The dimensions of the tensor."""
    require_same(states)
    return [graph.of(op.input)]


def resize(graph: Rewriter, op: Any, states: States) -> Result:
    """By whole factors, to the nearest element: no result depends on where the data ends."""
    require_same(states, but=("sizes",))
    extents, shape = graph.of(op.input), shape_of(op.result) or ()
    found = list(extents)
    for axis, extent in enumerate(extents):
        scale = float(op.scales[axis])
        if not is_dynamic(extent):
            found[axis] = _fitted(graph, states, axis, shape[axis])
            if is_dynamic(found[axis]):
                raise BoundedError("a resize to a size that varies")
        elif scale != 1:
            if len(extent) > 1 or not repeats_elements(op, axis):
                raise BoundedError(f"a resize of mode {op.mode} by {scale:g} of a dimension that varies")
            found[axis] = prefix(count_of(extent) * int(scale), shape[axis])
    return [found]


RULES: dict[type[Op], Rule] = {
    TransposeOp: transpose,
    ReshapeOp: reshape,
    BroadcastToOp: broadcast_to,
    TileOp: tile,
    ConcatOp: concat,
    SliceOp: slice_,
    ReverseOp: reverse,
    PadOp: pad,
    GatherOp: gather,
    RowOp: row,
    WithRowOp: with_row,
    ResizeOp: resize,
}
