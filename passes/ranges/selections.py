"""Rules for ops that keep some elements, whose number depends on data, and for groups of equal elements.

Elements behind the data are never kept, and join no group. A result has room for as many elements as there is data at
the greatest sizes; the number of those that are kept is computed as in programs for single sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects.stepwell.boxes import JoinRowsOp, SuppressOp
from ...dialects.stepwell.elementwise import AndOp, CastOp, GreaterEqualOp, LessOp, SelectOp
from ...dialects.stepwell.grouping import NumberGroupsOp, SortRowsOp, SummarizeGroupsOp
from ...dialects.stepwell.movement import ConcatOp, SliceOp
from ...dialects.stepwell.reduction import ReduceSumOp
from ...dialects.stepwell.selecting import CompressOp, NonZeroOp
from ..graph.values import constant, dtype_of
from ..ir.values import shape_of
from .checks import require_static_attributes
from .errors import RangesError
from .extents import count_of, is_dynamic, numbered, prefix, size_of, whole
from .layout import compact_all, compacted, set_operands
from .movement import with_room
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState

_INDEX = np.dtype(np.int64)


@PADDING.attach(NonZeroOp)
def nonzero(graph: Rewriter, op: NonZeroOp, state: OpState) -> None:
    """Elements beyond the data are false; the order of the others in memory is their order in the data."""
    require_static_attributes(state)
    rank = len(graph.of(op.input))
    value = compacted(graph, op.input, range(rank))
    value = graph.kept_here(value, graph.dynamic(value), 0.0)
    room = math.prod(map(size_of, graph.of(value)))
    made = graph.noted(NonZeroOp(value), [whole(rank), prefix(state.shapes[0][1], room)])
    replace(op, with_room(graph, made, 1, shape_of(op.result)[1]))


@PADDING.attach(CompressOp)
def compress(graph: Rewriter, op: CompressOp, state: OpState) -> ResultExtents:
    """Conditions beyond the data are false."""
    require_static_attributes(state)
    axis = op.axis % len(graph.of(op.input))
    condition = compacted(graph, op.condition, [0])
    value = compacted(graph, op.input, [axis])
    set_operands(op, [value, graph.kept_here(condition, graph.dynamic(condition), 0.0)])
    return [graph.of(value)]


@PADDING.attach(SuppressOp)
def suppress(graph: Rewriter, op: SuppressOp, state: OpState) -> ResultExtents | None:
    """Gives boxes beyond the data the least score: they come last, and are no candidates if there is a bound."""
    require_static_attributes(state)
    boxes, scores, *rest = op.operation.operands
    boxes, scores = (compacted(graph, value, range(3)) for value in (boxes, scores))
    count = graph.of(scores)[2]
    scores = graph.masked(scores, graph.dynamic(scores), -math.inf)
    found = [*graph.of(scores)[:2], whole(op.most + 1)]
    set_operands(op, [boxes, scores, *rest])
    if op.least is not None or not is_dynamic(count) or not op.most:
        return [found]
    kept = graph.noted(
        SuppressOp(boxes, scores, op.limit, op.overlap, most=op.most, is_center=op.is_center),
        found,
    )
    room, most = [size_of(extent) for extent in found], op.most
    numbers, total = (
        graph.noted(
            SliceOp(kept, starts=(0, 0, start), stops=(*room[:2], stop), steps=(1, 1, 1)),
            [*found[:2], whole(stop - start)],
        )
        for start, stop in ((0, most), (most, most + 1))
    )
    extents = graph.of(numbers)
    is_first = graph.noted(LessOp(constant(numbered(most)), total), extents)
    is_box = graph.noted(LessOp(numbers, graph.number(count_of(count), _INDEX)), extents)
    counted = graph.noted(CastOp(graph.noted(AndOp(is_first, is_box), extents), dtype=_INDEX), extents)
    fewer = graph.noted(ReduceSumOp(counted, axes=(2,), keepdims=True), graph.of(total))
    replace(op, graph.noted(ConcatOp(numbers, fewer, axis=2), found))
    return None


@PADDING.attach(JoinRowsOp)
def join_rows(graph: Rewriter, op: JoinRowsOp, state: OpState) -> None:
    """Rows beyond the data have no elements."""
    require_static_attributes(state)
    rank = len(graph.of(op.input))
    if is_dynamic(graph.of(op.input)[-1]):
        raise RangesError("the length of the rows varies")
    value = compacted(graph, op.input, range(rank - 1))
    value = graph.kept_here(value, graph.dynamic(value), 0.0)
    *outer, length = map(size_of, graph.of(value))
    room = math.prod(outer) * (length - 1)
    made = graph.noted(JoinRowsOp(value), [prefix(state.shapes[0][0], room), whole(rank)])
    replace(op, with_room(graph, made, 0, shape_of(op.result)[0]))


@PADDING.attach(SortRowsOp)
def sort_rows(graph: Rewriter, op: SortRowsOp, state: OpState) -> ResultExtents | None:
    """Puts a column in front that sorts rows beyond the data last; columns beyond the data are equal.

    sort_rows(x) --> sort_rows(concat(row >= n, x))
    """
    require_static_attributes(state)
    value = _rows(graph, op.input)
    rows = graph.of(value)[0]
    if not is_dynamic(rows):
        op.operation.operands[0] = value
        return [[rows]]
    count, width = map(size_of, graph.of(value))
    is_padding = GreaterEqualOp(constant(numbered(count)), graph.number(count_of(rows), _INDEX))
    last = graph.noted(CastOp(graph.noted(is_padding), dtype=dtype_of(value)))
    column = graph.reshaped(last, (count, 1))
    keys = graph.noted(ConcatOp(column, value, axis=1), [rows, whole(width + 1)])
    replace(op, graph.noted(SortRowsOp(keys), [rows]))
    return None


@PADDING.attach(NumberGroupsOp)
def number_groups(graph: Rewriter, op: NumberGroupsOp, state: OpState) -> ResultExtents:
    """Elements beyond the data come last, in their order, so that their groups get the last numbers."""
    require_static_attributes(state)
    value, order = _rows(graph, op.input), compacted(graph, op.order, [0])
    members = graph.of(value)[0]
    if is_dynamic(members):
        places = constant(numbered(size_of(members)))
        is_data = graph.noted(LessOp(places, graph.number(count_of(members), _INDEX)))
        order = graph.noted(SelectOp(is_data, order, places))
    set_operands(op, [value, order])
    return [[members]]


def _rows(graph: Rewriter, value: ir.Value) -> ir.Value:
    """Elements, or rows whose columns beyond the data are 0."""
    value = compacted(graph, value, range(len(graph.of(value))))
    columns: Sequence[int] = [axis for axis in graph.dynamic(value) if axis > 0]
    return graph.kept_here(value, columns, 0.0)


@PADDING.attach(SummarizeGroupsOp)
def summarize_groups(graph: Rewriter, op: SummarizeGroupsOp, state: OpState) -> ResultExtents:
    """Members beyond the data get a number that does not count."""
    require_static_attributes(state)
    (groups,) = compact_all(graph, [op.groups], 0)
    op.operation.operands[0] = graph.kept_here(groups, graph.dynamic(groups), -1.0)
    return [graph.of(groups)]
