"""What ops need of their operands, where a prefix of their results is needed: a rule for each kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from ...dialects.core import Op
from ...dialects.stepwell import STEPWELL
from ...dialects.stepwell.elementwise import KeepOp
from ...dialects.stepwell.movement import ReshapeOp, ResizeOp, SliceOp, TransposeOp
from ...dialects.stepwell.normalization import AttentionOp, LayerNormOp, RmsNormOp, SoftmaxOp
from ...dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp
from ...dialects.stepwell.pooling import PoolOp
from ...dialects.stepwell.reduction import ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceSumOp
from ...dialects.stepwell.winograd import WinogradConvOp
from ..rewriting import defining_op
from .classify import kernel_class
from .views import EXTRACT, INSERT, box_of

Prefix = int | str | list | None
"""How many elements along a dimension: an expression over sizes; None for all."""


def all_of(value: ir.Value) -> list[Prefix]:
    """All of a tensor."""
    return [None] * ir.RankedTensorType(value.type).rank if isinstance(value.type, ir.RankedTensorType) else []


_REDUCTIONS = (ReduceSumOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp)

Rule = Callable[[ir.Operation, int, Sequence[Prefix], Sequence[Any]], Sequence[Prefix]]
"""What an op needs of an operand (by its number), from what is needed of its result and the table."""


def rule_of(op: ir.Operation) -> Rule | None:
    """The rule for an op; None where it needs all of its operands."""
    if op.name in _BY_NAME:
        return _BY_NAME[op.name]
    view = STEPWELL.view(op)
    if view is None:
        return None
    for kind, rule in _BY_KIND:
        if isinstance(view, kind):
            return rule
    return _broadcast if kernel_class(op) == "elementwise" else None


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _broadcast(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    shape, wide = _shape(op.operands[place]), _shape(op.results[0])
    shift = len(wide) - len(shape)
    return [needed[axis + shift] if size == wide[axis + shift] else None for axis, size in enumerate(shape)]


def _keep(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """Of the input no more than what is kept."""
    found = list(_broadcast(op, place, needed, table))
    view, mask = KeepOp(op), _shape(op.operands[1])
    axis = len(found) - len(mask) + next((axis for axis, size in enumerate(mask) if size != 1), 0)
    if place == 0 and view.extent >= 0:
        found[axis] = table[view.extent]
    return found


def _rows(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """Of a product's input the rows, and all of each; of everything else all."""
    if place:
        return all_of(op.operands[place])
    return [*needed[:-1], None]


def _norm(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    if place:
        return all_of(op.operands[place])
    rank = len(needed)
    axis = STEPWELL.view(op).attribute_values()["axis"] % rank  # pyright: ignore[reportOptionalMemberAccess]
    whole = [axis] if op.name == SoftmaxOp.OPERATION_NAME else range(axis, rank)
    return [None if dim in whole else prefix for dim, prefix in enumerate(needed)]


def _reduce(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """All along what is reduced, unless a mask says less, and of the rest what is needed of the result."""
    found = all_of(op.operands[0])
    axes = {axis % len(found) for axis in STEPWELL.view(op).attribute_values()["axes"]}  # pyright: ignore[reportOptionalMemberAccess]
    kept = [axis for axis in range(len(found)) if axis not in axes]
    places = kept if len(needed) == len(found) else range(len(kept))
    for axis, where in zip(kept, places, strict=True):
        found[axis] = needed[where]
    return found


def skipped_by(op: ir.Operation) -> tuple[ir.Value, list[tuple[int, int]]] | None:
    """What a reduction reads through masks, and where it can stop: dimensions with their entries of the table.

    None where it reads through none.
    """
    if not isinstance(STEPWELL.view(op), _REDUCTIONS):
        return None
    value, found = op.operands[0], []
    rank = len(_shape(value))
    axes = {axis % rank for axis in STEPWELL.view(op).attribute_values()["axes"]}  # pyright: ignore[reportOptionalMemberAccess]
    while (keep := defining_op(value, KeepOp)) is not None and len(list(value.uses)) == 1:
        mask = _shape(keep.mask)
        along = [axis for axis, size in enumerate(mask, rank - len(mask)) if size != 1]
        if len(along) == 1 and along[0] in axes and keep.extent >= 0:
            found.append((along[0], keep.extent))
        value = keep.input
    return (value, found) if found else None


def _attention(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    batch, heads, length, _ = needed
    if place == 0:
        return [batch, heads, length, None]
    if place < 3:
        return [batch, None, keys_of(op, table), None]
    shape = _shape(op.operands[3])
    wide = [batch, heads, length, None][4 - len(shape) :]
    return [None if size == 1 else prefix for size, prefix in zip(shape, wide, strict=True)]


_KEYS = 16
"""So many keys at a time are looked at: a multiple of what any loop over keys takes in one round."""


def keys_of(op: ir.Operation, table: Sequence[Any]) -> Prefix:
    """How many keys an attention needs, the others being masked; None for all of them."""
    view = AttentionOp(op)
    mask = None if view.mask is None else defining_op(view.mask, KeepOp)
    length, depth = _shape(view.key)[2:]
    # Buffers over keys are told from those over the depth by their sizes.
    if mask is None or mask.extent < 0 or length % _KEYS or length in (depth, _shape(view.value)[3]):
        return None
    along = _shape(mask.mask)
    if not along or along[-1] != length:
        return None
    return ["min", length, ["*", ["ceildiv", table[mask.extent], _KEYS], _KEYS]]


def _transpose(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    permutation = TransposeOp(op).permutation
    return [needed[permutation.index(axis)] for axis in range(len(needed))]


def _reshape(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """Of dimensions that become one, or of one that falls into several, the outermost counts."""
    old, new = _shape(op.operands[0]), _shape(op.results[0])
    found: list[Prefix] = [None] * len(old)
    lefts = [axis for axis, size in enumerate(old) if size != 1]
    rights = [axis for axis, size in enumerate(new) if size != 1]
    while lefts and rights:
        left, right = [lefts.pop(0)], [rights.pop(0)]
        while (sizes := (_count(old, left), _count(new, right)))[0] != sizes[1]:
            if not (lefts if sizes[0] < sizes[1] else rights):
                return found
            (left if sizes[0] < sizes[1] else right).append((lefts if sizes[0] < sizes[1] else rights).pop(0))
        prefix = needed[right[0]]
        if prefix is not None and (len(left) == 1 or len(right) == 1):
            elements = _scaled(prefix, _count(new, right[1:]), 0)
            found[left[0]] = elements if len(left) == 1 else ["ceildiv", elements, _count(old, left[1:])]
    return found


def _count(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[axis] for axis in axes)


def _slice(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    view = SliceOp(op)
    return [_scaled(*item) for item in zip(needed, view.steps, view.starts, strict=True)]


def _extract(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    offsets, sizes, steps = box_of(op)
    if len(sizes) != len(needed):
        return all_of(op.operands[0])
    return [_scaled(*item) for item in zip(needed, steps, offsets, strict=True)]


def _insert(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    offsets, sizes, steps = box_of(op)
    if place:
        return list(needed)
    if len(sizes) != len(_shape(op.operands[0])) or any(step != 1 for step in steps):
        return all_of(op.operands[0])
    return [_scaled(prefix, 1, -offset) for prefix, offset in zip(needed, offsets, strict=True)]


def _scaled(prefix: Prefix, factor: int, offset: int) -> Prefix:
    """prefix * factor + offset."""
    if prefix is None:
        return None
    scaled = prefix if factor == 1 else ["*", prefix, factor]
    return scaled if offset == 0 else ["+", scaled, offset]


def _conv(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """What the windows of the positions meet; images have their channels last, and no padding."""
    if place:
        return all_of(op.operands[place])
    view = STEPWELL.view(op)
    assert view is not None
    attributes = view.attribute_values()
    kernel = attributes["kernel"] if "kernel" in attributes else _shape(op.operands[1])[: len(attributes["strides"])]
    return _windows(needed, kernel, attributes["strides"], attributes["dilations"], [0] * len(kernel))


def _pool(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    view: Any = STEPWELL.view(op)
    if view.layout != "channels_last":
        return all_of(op.operands[0])
    return _windows(needed, view.kernel, view.strides, view.dilations, view.pads)


def _winograd(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    view = WinogradConvOp(op)
    if place:
        return _broadcast(op, place, needed, table) if place > 1 else all_of(op.operands[place])
    # Whole tiles are computed.
    tiles = [prefix if prefix is None else ["+", prefix, view.tile - 1] for prefix in needed]
    return _windows(tiles, (3, 3), (1, 1), (1, 1), view.pads)


def _windows(
    needed: Sequence[Prefix],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> list[Prefix]:
    found: list[Prefix] = [needed[0]]
    for prefix, size, stride, dilation, pad in zip(needed[1:-1], kernel, strides, dilations, pads, strict=False):
        found.append(_scaled(prefix, stride, (size - 1) * dilation + 1 - stride - pad))
    return [*found, None]


def _resize(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """To the nearest element by whole factors; one more, whichever way halves are rounded."""
    view = ResizeOp(op)
    if view.mode != "nearest":
        return all_of(op.operands[0])
    scales = [float(scale) for scale in view.scales]
    found: list[Prefix] = []
    for prefix, scale in zip(needed, scales, strict=True):
        if prefix is not None and scale != 1:
            prefix = ["+", ["ceildiv", prefix, int(scale)], 1] if scale.is_integer() else None
        found.append(prefix)
    return found


_BY_NAME: dict[str, Rule] = {EXTRACT: _extract, INSERT: _insert}
_BY_KIND: tuple[tuple[type[Op] | tuple[type[Op], ...], Rule], ...] = (
    (KeepOp, _keep),
    (PackedMatmulOp, _rows),
    ((LayerNormOp, RmsNormOp, SoftmaxOp), _norm),
    (_REDUCTIONS, _reduce),
    (AttentionOp, _attention),
    (TransposeOp, _transpose),
    (ReshapeOp, _reshape),
    (SliceOp, _slice),
    ((PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp), _conv),
    (WinogradConvOp, _winograd),
    (PoolOp, _pool),
    (ResizeOp, _resize),
)
