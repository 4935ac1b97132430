"""Rules for ops that depend on element positions along varying dimensions: sorting, running totals, scattering."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects.stepwell.cumulative import CumulativeOp
from ...dialects.stepwell.elementwise import AddOp, CastOp, DivOp, LessOp, ModOp, MulOp, NotOp, SelectOp
from ...dialects.stepwell.movement import SampleOp, ScatterOp
from ...dialects.stepwell.pooling import MaxPoolIndicesOp
from ...dialects.stepwell.sorting import TopKOp
from ...dialects.stepwell.windows import CHANNELS_FIRST
from ..graph.values import constant, dtype_of, static_shape
from .checks import require_static, require_static_attributes
from .errors import RangesError
from .extents import Extent, count_of, is_dynamic, prefix
from .layout import agree, compacted, is_apart, located
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState
from .windows import windows

_INDEX = np.dtype(np.int64)


@PADDING.attach(TopKOp)
def top_k(graph: Rewriter, op: TopKOp, state: OpState) -> ResultExtents | None:
    """Sorts padding behind the data."""
    require_static_attributes(state, but=("k",))
    shape = static_shape(op.result) or ()
    last = len(shape) - 1
    taken = state.attributes["k"]
    value = compacted(graph, op.input, [last])
    extents = graph.of(value)
    found = [*extents[:last], prefix(taken, shape[last])]
    if not is_dynamic(extents[last]):
        op.operation.operands[0] = value
        return [found]
    count, entry = graph.number(count_of(extents[last]), _INDEX), graph.end_of(extents[last])
    replace(op, graph.noted(TopKOp(value, count, k=op.k, largest=op.largest, extent=entry), found))
    return None


@PADDING.attach(CumulativeOp)
def cumulative(graph: Rewriter, op: CumulativeOp, state: OpState) -> ResultExtents:
    """Moves data to the front, so that padding affects no total; for a reverse scan, makes it neutral."""
    require_static_attributes(state)
    axis = op.axis % len(static_shape(op.input) or ())
    value = compacted(graph, op.input, [axis])
    if op.reverse:
        value = graph.kept_here(value, [axis], 0.0 if op.mode == "sum" else 1.0)
    op.operation.operands[0] = value
    return [graph.of(value)]


@PADDING.attach(ScatterOp)
def scatter(graph: Rewriter, op: ScatterOp, state: OpState) -> None:
    """Updates beyond the data are not applied or get an index out of range; negative indices count from the data's end.

    If the data of the input lies in separate parts, indices are converted to the layout.
    """
    require_static_attributes(state)
    axis = op.axis % len(static_shape(op.input) or ())
    input, indices, updates = op.input, *agree(graph, [op.indices, op.updates], [axis] * 2)
    for batch in range(axis):
        input, indices, updates = agree(graph, [input, indices, updates], [batch] * 3)
    data, size = graph.of(input), (static_shape(input) or ())[axis]
    of_indices, dtype = graph.of(indices), dtype_of(indices)
    outside = constant(np.array(size, dtype)) if size <= np.iinfo(dtype).max else None
    if is_dynamic(data[axis]):
        zero, end = constant(np.zeros((), dtype)), graph.number(count_of(data[axis]), dtype)
        from_end = graph.noted(AddOp(indices, end), of_indices)
        indices = graph.noted(SelectOp(graph.noted(LessOp(indices, zero), of_indices), from_end, indices), of_indices)
        if is_apart(data[axis]):
            indices = _located(graph, indices, data[axis], end, outside)
    count, entry, along = None, -1, of_indices[axis]
    if is_apart(along):
        if outside is None:
            raise RangesError("the type of the indices cannot hold an index out of range")
        indices = graph.kept_here(indices, [axis], float(size))
    if along[0].is_dynamic:
        inner = math.prod(factor.size for factor in along[1:])
        count, entry = graph.number(along[0].extent * inner, _INDEX), graph.end_of(along)
    made = ScatterOp(input, indices, updates, count, axis=op.axis, reduction=op.reduction, extent=entry)
    replace(op, graph.noted(made, data))


def _located(graph: Rewriter, indices: ir.Value, data: Extent, end: ir.Value, outside: ir.Value | None) -> ir.Value:
    """Converts indices among the data to indices in a dimension with separate parts; others become `outside`.

    Args:
        graph: the rewriter.
        indices: indices among the data.
        data: the dimension.
        end: number of elements with data.
        outside: size of the dimension; None if the type of the indices cannot represent it.
    """
    extents, dtype = graph.of(indices), dtype_of(indices)
    if outside is None:
        raise RangesError("the type of the indices cannot hold an index out of range")
    wide = indices if dtype == _INDEX else graph.noted(CastOp(indices, dtype=_INDEX), extents)
    position = located(graph, wide, data, extents)
    position = position if dtype == _INDEX else graph.noted(CastOp(position, dtype=dtype), extents)
    for is_inside in (LessOp(indices, end), NotOp(LessOp(indices, constant(np.zeros((), dtype))))):
        position = graph.noted(SelectOp(graph.noted(is_inside, extents), position, outside), extents)
    return position


@PADDING.attach(MaxPoolIndicesOp)
def max_pool_indices(graph: Rewriter, op: MaxPoolIndicesOp, state: OpState) -> ResultExtents | None:
    """Renumbers the indices so that they count only data, not padding."""
    found = windows(graph, op, state)
    if found is None:
        raise RangesError("the padding before the windows depends on the sizes")
    extents, shape = graph.of(op.input), static_shape(op.input) or ()
    spatial = range(2, len(shape)) if op.layout == CHANNELS_FIRST else range(1, len(shape) - 1)
    if not any(is_dynamic(extents[axis]) for axis in list(spatial)[1:]):
        return found
    index = graph.noted(MaxPoolIndicesOp(op.input, **op.attribute_values()), found[0])
    sizes = [shape[axis] for axis in spatial]
    counts = [graph.number(count_of(extents[axis]), _INDEX) for axis in spatial]
    replace(op, _renumbered(graph, index, sizes, counts))
    return None


def _renumbered(graph: Rewriter, index: ir.Value, sizes: Sequence[int], counts: Sequence[ir.Value]) -> ir.Value:
    """Linear indices in a box of `sizes`, converted to linear indices in a box of `counts`."""
    extents, total = graph.of(index), None
    for position, count in enumerate(counts):
        inner = constant(np.array(math.prod(sizes[position + 1 :])))
        size = constant(np.array(sizes[position]))
        along = graph.noted(ModOp(graph.noted(DivOp(index, inner), extents), size), extents)
        total = (
            along if total is None else graph.noted(AddOp(graph.noted(MulOp(total, count), extents), along), extents)
        )
    assert total is not None
    return total


@PADDING.attach(SampleOp)
def sample(graph: Rewriter, op: SampleOp, state: OpState) -> ResultExtents:
    """Any number of positions in images of one size; positions beyond the data are arbitrary."""
    require_static_attributes(state)
    images, positions = graph.of(op.input), graph.of(op.positions)
    require_static(graph, op, range(1, len(images)))
    if any(is_dynamic(extent) for extent in (images[0], positions[0])) and images[0] != positions[0]:
        raise RangesError("the batch size of the positions differs from that of the images")
    return [[images[0], images[1], *positions[2:]]]
