"""Liveness rules by kind of op: the prefixes of its operands that are live for given live prefixes of its result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlir import ir

from ...dialects import discardable
from ...dialects.registry import OPS
from ...dialects.stepwell.attention import FEW_QUERIES, KEYS_AT_ONCE, AttentionOp
from ...dialects.stepwell.blocks import PackedBlockMatmulOp
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.elementwise import ElementwiseOp, MaskOp
from ...dialects.stepwell.movement import (
    AppendOp,
    BroadcastToOp,
    ConcatOp,
    GatherOp,
    PadOp,
    ResampleOp,
    ReshapeOp,
    SliceOp,
    TakeRowsOp,
    TransposeOp,
)
from ...dialects.stepwell.packed import PackedMatmulOp
from ...dialects.stepwell.paging import PagedAttentionOp, StoreRowsOp
from ..ir.rewriting import defining_op
from ..ir.values import shape_of
from .masks import masked_axis
from .prefixes import DEMAND, LiveRule, Prefix, all_of, broadcast, divided, scaled
from .views import EXTRACT, INSERT, box_of, kept_dims

_COMPUTED = ir.ShapedType.get_dynamic_size()


def rule_of(op: ir.Operation) -> LiveRule | None:
    """The rule for an op; None if it needs its operands in full."""
    if op.name in _BY_NAME:
        return _BY_NAME[op.name]
    kind = OPS.get(op.name)
    return None if kind is None else DEMAND.of(kind)


@DEMAND.attach(MaskOp)
def _keep(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """At most the unmasked part of the input."""
    found = list(broadcast(op, index, needed, table))
    view = MaskOp(op)
    axis = masked_axis(view)  # None for a mask of a single element, whose shape does not tell which dimension it masks.
    if index == 0 and view.extent >= 0 and axis is not None:
        found[axis] = table[view.extent]
    return found


@DEMAND.attach(PackedMatmulOp)
def _rows(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The rows of a product's input, each in full; all weights, or those of the live matrices of a batch."""
    if index == 0:
        return [*needed[:-1], None]
    matrices = shape_of(op.results[0])[0]
    if index > 1 or PackedMatmulOp(op).batch == 1 or len(shape_of(op.operands[1])) > 1:
        return all_of(op.operands[index])
    return [scaled(needed[0], shape_of(op.operands[1])[0] // matrices, 0)]


@DEMAND.attach(PackedBlockMatmulOp)
def _rows_in_blocks(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The rows of the operands that have rows, each in full, and all of the weight."""
    is_packed = len(shape_of(op.operands[index])) == 1 and len(needed) > 1
    return all_of(op.operands[index]) if is_packed else [*needed[:-1], None]


@DEMAND.attach(MatmulOp)
def _product(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The live rows of one operand and the live columns of the other; the contracted dimension in full."""
    view, shape, wide = MatmulOp(op), shape_of(op.operands[index]), shape_of(op.results[0])
    shift = len(wide) - len(shape)
    batch = [needed[axis + shift] if size == wide[axis + shift] else None for axis, size in enumerate(shape[:-2])]
    kept = needed[-1] if index else needed[-2]
    is_last = view.transpose_lhs if index == 0 else not view.transpose_rhs
    return [*batch, *([None, kept] if is_last else [kept, None])]


@DEMAND.attach(AttentionOp)
def _attention(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    batch, heads, length, _ = needed
    if index == 0:
        return [batch, heads, length, None]
    if index < 3:
        return [batch, None, keys_of(op, table), None]
    return _masked(op.operands[3], needed)


def _masked(mask: ir.Value, needed: Sequence[Prefix]) -> Sequence[Prefix]:
    """The prefixes of a mask of scores, from those of the result of attention."""
    shape = shape_of(mask)
    wide = [*needed[:3], None][4 - len(shape) :]
    return [None if size == 1 else prefix for size, prefix in zip(shape, wide, strict=True)]


_UNROLLED_KEYS = 32
"""Maximum number of keys of a loop that may be unrolled, so that it cannot end early.

A register tile of scores has fewer keys than the machine has vector registers: 16 with AVX2, 32 with AVX-512 and NEON.
"""


@DEMAND.attach(StoreRowsOp)
def _store_rows(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The pool and the table in full; of new rows and their places, the data."""
    if index in (0, 3):
        return all_of(op.operands[index])
    texts, tokens = (table[end] if end >= 0 else None for end in StoreRowsOp(op).ends or (-1, -1))
    return [texts, tokens] if index == 2 else [texts, None, tokens, None]


@DEMAND.attach(PagedAttentionOp)
def _paged_attention(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    batch, heads, length, _ = needed
    if index == 0:
        return [batch, heads, length, None]
    if index < 3 or index > 5:
        return all_of(op.operands[index])
    return _masked(op.operands[5], needed) if index == 5 else [batch, None][: len(shape_of(op.operands[index]))]


def keys_with_data(op: ir.Operation, index: int, table: Sequence[Any]) -> Prefix:
    """The number of keys or values with data, if an attention also reads some of the padding; None otherwise."""
    if op.name != AttentionOp.OPERATION_NAME or index not in (1, 2) or keys_of(op, table) is None:
        return None
    mask = AttentionOp(op).mask
    masked = None if mask is None else defining_op(mask, MaskOp)
    return None if masked is None else table[masked.extent]


def keys_of(op: ir.Operation, table: Sequence[Any]) -> Prefix:
    """The number of keys that an attention needs if the others are masked; None for all of them."""
    if op.name == PagedAttentionOp.OPERATION_NAME:
        view = PagedAttentionOp(op)
        value, length = view.mask, shape_of(view.mask)[3]
    else:
        view = AttentionOp(op)
        value, length = view.mask, shape_of(view.key)[2]
    mask = None if value is None else defining_op(value, MaskOp)
    if mask is None or mask.extent < 0:
        return None
    along = shape_of(mask.mask)
    if not along or along[-1] != length:
        return None
    if shape_of(view.query)[2] <= FEW_QUERIES:
        return table[mask.extent]
    if length % KEYS_AT_ONCE or length <= _UNROLLED_KEYS:
        return None
    return ["min", length, ["*", ["ceildiv", table[mask.extent], KEYS_AT_ONCE], KEYS_AT_ONCE]]


@DEMAND.attach(TransposeOp)
def _transpose(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    permutation = TransposeOp(op).permutation
    return [needed[permutation.index(axis)] for axis in range(len(needed))]


@DEMAND.attach(ReshapeOp)
def _reshape(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """In a group of merged or split dimensions only the outermost prefix counts: the element order is kept."""
    old, new = shape_of(op.operands[0]), shape_of(op.results[0])
    found: list[Prefix] = [None] * len(old)
    lefts = [axis for axis, size in enumerate(old) if size != 1]
    rights = [axis for axis, size in enumerate(new) if size != 1]
    while lefts and rights:
        left, right = [lefts.pop(0)], [rights.pop(0)]
        while (sizes := (_count(old, left), _count(new, right)))[0] != sizes[1]:
            if not (lefts if sizes[0] < sizes[1] else rights):
                return found
            (left if sizes[0] < sizes[1] else right).append((lefts if sizes[0] < sizes[1] else rights).pop(0))
        elements = scaled(needed[right[0]], _count(new, right[1:]), 0)
        found[left[0]] = divided(elements, _count(old, left[1:]))
    return found


def _count(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[axis] for axis in axes)


@DEMAND.attach(SliceOp)
def _slice(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The operand's elements up to the last live one of the result."""
    view, sizes = SliceOp(op), shape_of(op.results[0])
    ends = (size if prefix is None else prefix for prefix, size in zip(needed, sizes, strict=True))
    return [scaled(end, step, start - step + 1) for end, step, start in zip(ends, view.steps, view.starts, strict=True)]


def _extract(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The prefixes of the part; for a slice at a computed row, all rows or those with data."""
    offsets, sizes, steps = box_of(op)
    ends = dict(zip(kept_dims(sizes, shape_of(op.results[0])), needed, strict=True))
    found: list[Prefix] = []
    for axis, (offset, size, step) in enumerate(zip(offsets, sizes, steps, strict=True)):
        end = ends.get(axis)
        found.append(None if offset == _COMPUTED else scaled(size if end is None else end, step, offset - step + 1))
    if discardable.ROWS.is_on(op):
        found[0] = table[discardable.ROWS.required(op)]
    return found


def _insert(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The live part of the inserted value, which may lack unit dimensions; the result's prefixes for the target."""
    offsets, sizes, steps = box_of(op)
    if index:
        return list(needed)
    if any(step != 1 for step in steps):
        return all_of(op.operands[0])
    kept = kept_dims(sizes, shape_of(op.operands[0]))
    return [scaled(needed[axis], 1, -offsets[axis]) if offsets[axis] != _COMPUTED else None for axis in kept]


@DEMAND.attach(PadOp)
def _pad(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The live prefixes without the padding; in full where the mode repeats or mirrors edges."""
    view = PadOp(op)
    found = [scaled(prefix, 1, -low) for prefix, low in zip(needed, view.low, strict=True)]
    if view.mode == "constant":
        return found
    return [None if low or high else prefix for prefix, low, high in zip(found, view.low, view.high, strict=True)]


@DEMAND.attach(ConcatOp)
def _concat(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The result's prefixes; along the axis the operand's own part."""
    axis = ConcatOp(op).axis % len(needed)
    before = shape_of(op.operands[0])[axis] if index else 0
    return [scaled(prefix, 1, -before) if dim == axis else prefix for dim, prefix in enumerate(needed)]


@DEMAND.attach(AppendOp)
def _append(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The result's prefixes; along the axis the operand's data."""
    if index == 2:
        return all_of(op.operands[2])
    view, found = AppendOp(op), list(needed)
    found[view.axis % len(needed)] = table[view.ends[index]] if view.ends[index] >= 0 else None
    return found


@DEMAND.attach(GatherOp)
def _gather(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The result's prefixes; along the axis of the data, the range of the indices. Padding indices are clamped."""
    data, indices = map(shape_of, op.operands)
    view = GatherOp(op)
    axis = view.axis % len(data)
    if index:
        return needed[axis : axis + len(indices)]
    along = table[view.extent] if view.extent >= 0 else None
    return [*needed[:axis], along, *needed[axis + len(indices) :]]


@DEMAND.attach(TakeRowsOp)
def _take_rows(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """All rows with data of the input, each with the result's prefixes; only the live positions."""
    view = TakeRowsOp(op)
    spread = len(shape_of(op.operands[1]))
    if index:
        return needed[:spread]
    rows = [table[entry] for entry in view.extents] or [None] * view.leading
    return [*rows, *needed[spread:]]


@DEMAND.attach(ResampleOp)
def _resample(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The result's prefixes, but along the axis the range of the indices; all indices and weights."""
    if index:
        return all_of(op.operands[index])
    view = ResampleOp(op)
    found = list(needed)
    found[view.axis % len(found)] = table[view.extent] if view.extent >= 0 else None
    return found


_BY_NAME: dict[str, LiveRule] = {EXTRACT: _extract, INSERT: _insert}
DEMAND.attach(ElementwiseOp, BroadcastToOp)(broadcast)
