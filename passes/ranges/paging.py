"""Rules for keys and values in pools of rows."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ...dialects.stepwell.paging import PagedAttentionOp, StoreRowsOp
from ..ir.values import shape_of
from .checks import require_static_attributes
from .errors import RangesError
from .extents import is_dynamic, whole
from .layout import agree
from .reductions import mask_of
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState


@PADDING.attach(StoreRowsOp)
def store_rows(graph: Rewriter, op: StoreRowsOp, state: OpState) -> None:
    """Stores only the rows of the data."""
    require_static_attributes(state)
    _require_static_pools(graph, [op.pool])
    if op.table is not None:
        raise RangesError("it reads a table of extents already")
    pool, rows, slots = op.operation.operands
    for row_axis, place_axis in ((0, 0), (2, 1)):
        rows, slots = agree(graph, [rows, slots], [row_axis, place_axis])
    ends = tuple(graph.end_of(extent) for extent in graph.of(slots))
    replace(op, graph.noted(StoreRowsOp(pool, rows, slots, graph.table, ends=ends), graph.of(pool)))


@PADDING.attach(PagedAttentionOp)
def paged_attention(graph: Rewriter, op: PagedAttentionOp, state: OpState) -> ResultExtents | None:
    """Masks keys beyond the data."""
    require_static_attributes(state)
    scales = [item for item in (op.key_scales, op.value_scales) if item is not None]
    _require_static_pools(graph, [op.key, op.value, *scales])
    query, keys = graph.of(op.query), graph.of(op.mask)[3]
    if any(map(is_dynamic, (query[1], query[3], graph.of(op.pages)[1]))):
        raise RangesError("the number or the depth of heads, or the number of pages of a text, varies")
    result = [*query[:3], whole(shape_of(op.result)[3])]  # pools of bytes may hold two elements in each
    if not is_dynamic(keys):
        return [result]
    operands, mask = list(op.operation.operands)[:5], mask_of(graph, op, keys)
    replace(op, graph.noted(PagedAttentionOp(*operands, mask, *scales, **op.attribute_values()), result))
    return None


def _require_static_pools(graph: Rewriter, pools: Sequence[ir.Value]) -> None:
    if any(map(graph.dynamic, pools)):
        raise RangesError("the size of a pool of rows varies")
