"""Patterns of keys and values in pools of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.core import spec_of
from ....dialects.stepwell.attention import FEW_QUERIES, AttentionOp
from ....dialects.stepwell.elementwise import (
    AddOp,
    AndOp,
    CastOp,
    DivOp,
    FloorOp,
    LessOp,
    MaskOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    NotOp,
    SelectOp,
    SubOp,
)
from ....dialects.stepwell.movement import ConcatOp, ExpandDimsOp, GatherOp, ReshapeOp, TransposeOp
from ....dialects.stepwell.paging import MIDDLE, PagedAttentionOp, elements_in_a_byte
from ...ir.rewriting import Pattern, Replacement, defining_op
from ..values import constant, dimension, dtype_of, is_float, numbered, scalar_like, static_shapes
from .attention import AttentionKernels


@dataclass(frozen=True)
class GatherPagedRows(Pattern[PagedAttentionOp]):
    """paged_attention(q, keys, values, pages, starts, mask)
    --> attention(q, transpose(gather(keys, slots)), transpose(gather(values, slots)), mask & positions >= starts)

    Rows of bytes are multiplied by their scales after they are gathered.

    Applies to many queries, each of which reads all rows, so that a copy of these costs little; and if no kernel of the
    target reads pages in place.

    Attributes:
        kernels: the target's kernels.
    """

    kernels: AttentionKernels = "lanes"

    root = PagedAttentionOp

    def rewrite(self, op: PagedAttentionOp) -> Replacement:
        shapes = static_shapes(op.query, op.pages, op.key, op.mask)
        if shapes is None or not all(isinstance(size, int) for shape in shapes for size in shape):
            return None
        query, pages, pool, scores = shapes
        if self.kernels == "lanes" and query[2] <= FEW_QUERIES and dtype_of(op.query) == np.float32:
            return None
        ahead = SubOp(constant(np.arange(scores[3])), ExpandDimsOp(op.starts, axes=(1,))).result
        size = scalar_like(op.page_size, ahead)
        inside = _with_data(op.mask, MaximumOp(ahead, scalar_like(0, ahead)).result)
        page = page_of(op.pages, MinimumOp(DivOp(inside, size), scalar_like(pages[1] - 1, ahead)).result)
        page = MaximumOp(MinimumOp(page, scalar_like(pool[1] // op.page_size - 1, page)), scalar_like(0, page)).result
        slots = slots_in(page, inside, op.page_size)
        mask = _masked(op.mask, ExpandDimsOp(LessOp(ahead, scalar_like(0, ahead)), axes=(1, 2)).result)
        pools = ((op.key, op.key_scales), (op.value, op.value_scales))
        key, value = (_gathered(rows, scales, slots, dtype_of(op.query)) for rows, scales in pools)
        return AttentionOp(op.query, key, value, mask, scale=op.scale, zero_empty=op.zero_empty, cap=op.cap).result


def _with_data(mask: ir.Value, positions: ir.Value) -> ir.Value:
    """Returns positions i64[texts, keys] in which 0 replaces those that a mask hides as padding.

    Attention multiplies their rows by 0, and rows that no text has may contain NaN.
    """
    kept = defining_op(mask, MaskOp)
    if kept is None:
        return positions
    if spec_of(kept.mask).shape != (spec_of(positions).shape[1],):
        return _with_data(kept.input, positions)
    is_shown = CastOp(kept.mask, dtype=dtype_of(positions)).result
    return MaskOp(positions, is_shown, otherwise=0.0, extent=kept.extent).result


def page_of(table: ir.Value, numbers: ir.Value) -> ir.Value:
    """Returns the pages, i64[texts, count], at numbers i64[texts, count] in the lines of a table i64[texts, pages]."""
    texts, columns = spec_of(table).shape
    lines = MulOp(ExpandDimsOp(numbered(texts), axes=(1,)), dimension(columns)).result
    return GatherOp(ReshapeOp(table, shape=(texts * columns,)), AddOp(lines, numbers), axis=0).result


def slots_in(page: ir.Value, positions: ir.Value, page_size: int) -> ir.Value:
    """Returns the rows of a pool for positions of texts that lie in the given pages."""
    size = scalar_like(page_size, positions)
    return AddOp(MulOp(page, size), ModOp(positions, size)).result


def _masked(mask: ir.Value, is_before: ir.Value) -> ir.Value:
    """Returns a mask that also hides the positions before a text; one that hides padding stays one."""
    kept = defining_op(mask, MaskOp)
    if kept is not None:
        return MaskOp(_masked(kept.input, is_before), kept.mask, **kept.attribute_values()).result
    if is_float(mask):
        return SelectOp(is_before, scalar_like(-np.inf, mask), mask).result
    return AndOp(mask, NotOp(is_before)).result


def _gathered(pool: ir.Value, scales: ir.Value | None, slots: ir.Value, dtype: np.dtype) -> ir.Value:
    """Returns [texts, heads, keys, depth]; rows with scales are multiplied by them."""
    rows = _in_slots(pool, slots)
    if scales is None:
        return rows if dtype_of(rows) == dtype else CastOp(rows, dtype=dtype).result
    elements = CastOp(rows, dtype=np.dtype(np.float32)).result
    if elements_in_a_byte(dtype_of(rows)) == 2:
        elements = _unpacked(elements)
    wide = MulOp(elements, _in_slots(scales, slots)).result
    return wide if dtype == np.float32 else CastOp(wide, dtype=dtype).result


def _unpacked(both: ir.Value) -> ir.Value:
    """Returns the elements of bytes, given as floats, that hold two numbers of four bits."""
    high = FloorOp(MulOp(both, scalar_like(1 / 16, both))).result
    low = SubOp(both, MulOp(high, scalar_like(16, high))).result
    return SubOp(ConcatOp(low, high, axis=-1), scalar_like(MIDDLE, both)).result


def _in_slots(pool: ir.Value, slots: ir.Value) -> ir.Value:
    return TransposeOp(GatherOp(pool, slots, axis=1), permutation=(1, 0, 2, 3)).result
