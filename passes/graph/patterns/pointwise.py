"""Patterns that sink movement of whole rows below ops that work on single elements or rows.

The kernel before the movement can then fuse such ops, and consecutive movement ops merge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from ....dialects.core import Op
from ....dialects.specs import size_of
from ....dialects.stepwell.elementwise import BinaryOp, UnaryOp
from ....dialects.stepwell.movement import PadOp, ReshapeOp, ReverseOp, TileOp, TransposeOp
from ....dialects.stepwell.packed import PackedMatmulOp
from ...ir.kernel_classes import kernel_class
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op, has_one_use
from ..values import is_fixed, static_shape
from .reshapes import reshape_groups

_FUSES_CONSUMERS = {"contraction", "convolution", "winograd", "depthwise", "elementwise"}


class ElementwiseBeforeMovement(Pattern):
    """f(move(x), y) --> move(f(x, y')), if f can be fused into the kernel that computes x

    The other operand is a single number. If `move` keeps rows or splits them evenly, it may also be one part of a row;
    if `move` is a reshape, a tensor of the same shape whose own kernel cannot fuse f.
    """

    root = (UnaryOp, BinaryOp)

    def rewrite(self, op: Op) -> Replacement:
        operands = list(op.operation.operands)
        result = op.operation.results[0].type
        found = [value for value in operands if _is_movement(value) and has_one_use(value) and value.type == result]
        if not found:
            return None
        found = [value for value in found if _has_fusing_producer(value.owner.operands[0])]
        # The op moves to the nearest kernel that can fuse it.
        for moved in sorted(found, key=lambda value: not _fuses_consumers(value.owner.operands[0])):
            source = moved.owner.operands[0]
            others = [value if value == moved else _adapted_operand(value, moved) for value in operands]
            if all(value is not None for value in others):
                replaced = [source if value == moved else value for value in others]
                return _move_like(moved, type(op)(*replaced, **op.attribute_values()).operation.results[0])
        return Refusal("the other operand differs from row to row" if found else "no kernel can fuse the op")


class MatmulBeforeMovement(Pattern[PackedMatmulOp]):
    """matmul(move(x), w) --> move(matmul(x, w)), if `move` keeps rows and the rows do not become longer"""

    root = PackedMatmulOp

    def rewrite(self, op: PackedMatmulOp) -> Replacement:
        moved, shape = op.input, static_shape(op.input)
        if not _is_movement(moved) or shape is None:
            return None
        if op.batch > 1 or not has_one_use(moved) or not _keeps_rows(moved) or op.columns > shape[-1]:
            return Refusal("rows have separate weights, are not kept, have other readers, or become longer")
        result = PackedMatmulOp(moved.owner.operands[0], op.weight, **op.attribute_values()).result
        return _move_like(moved, result)


class PadBeforeReshape(Pattern[PadOp]):
    """pad(reshape(x)) --> reshape(pad(x)), if the reshape keeps the padded dimensions

    The producer of x can then write directly inside the padding.
    """

    root = PadOp

    def rewrite(self, op: PadOp) -> Replacement:
        inner = defining_op(op.input, ReshapeOp)
        shape = None if inner is None else static_shape(inner.input)
        if inner is None or shape is None or not has_one_use(inner.result):
            return None
        low, high = [0] * len(shape), [0] * len(shape)
        for group in reshape_groups(shape, inner.shape) or ():
            if not any(op.low[axis] or op.high[axis] for axis in group.after):
                continue
            if len(group.before) != 1 or len(group.after) != 1:
                return Refusal("the reshape splits or merges a padded dimension")
            low[group.before[0]], high[group.before[0]] = op.low[group.after[0]], op.high[group.after[0]]
        if sum(low) + sum(high) != sum(op.low) + sum(op.high):
            return Refusal("the reshape splits or merges a padded dimension")
        padded = PadOp(inner.input, **{**op.attribute_values(), "low": tuple(low), "high": tuple(high)}).result
        return ReshapeOp(padded, shape=static_shape(op.result)).result


class TransposeAcrossReshape(Pattern[TransposeOp]):
    """transpose(reshape(transpose(x, p)), q) --> reshape(transpose(reshape(x), r)), which moves the data only once"""

    root = TransposeOp

    def rewrite(self, op: TransposeOp) -> Replacement:
        middle = defining_op(op.input, ReshapeOp)
        first = None if middle is None else defining_op(middle.input, TransposeOp)
        shape = None if first is None else static_shape(first.input)
        if (
            middle is None
            or first is None
            or shape is None
            or not has_one_use(op.input)
            or not has_one_use(first.result)
        ):
            return None
        before = [(axis, shape[axis]) for axis in first.permutation if shape[axis] != 1]
        after = [(axis, dim) for axis, dim in enumerate(middle.shape) if dim != 1]
        pieces = _common_pieces(before, after)
        if pieces is None:
            return Refusal("the reshape both splits and merges dimensions")
        of_source, of_result = pieces
        ordered = [piece for axis in range(len(shape)) for piece in of_source.get(axis, ())]
        wanted = [piece for axis in op.permutation for piece in of_result.get(axis, ())]
        cut = ReshapeOp(first.input, shape=tuple(size for _, size in ordered)).result
        moved = TransposeOp(cut, permutation=tuple(ordered.index(piece) for piece in wanted)).result
        return ReshapeOp(moved, shape=static_shape(op.result)).result


class TransposeBeforeReverse(Pattern[TransposeOp]):
    """transpose(reverse(x, axes), p) --> reverse(transpose(x, p), p^-1[axes]), if only then no row is reversed

    Rows are copied whole, where single elements were.
    """

    root = TransposeOp

    def rewrite(self, op: TransposeOp) -> Replacement:
        inner = defining_op(op.input, ReverseOp)
        last = len(op.permutation) - 1
        if inner is None or is_fixed(op.input) or not has_one_use(op.input):
            return None
        if last not in inner.axes or op.permutation[last] in inner.axes:
            return Refusal("rows are reversed before it as well as behind it, or neither")
        moved = TransposeOp(inner.input, permutation=op.permutation).result
        return ReverseOp(moved, axes=tuple(sorted(op.permutation.index(axis) for axis in inner.axes))).result


PATTERNS: tuple[Pattern, ...] = (
    ElementwiseBeforeMovement(),
    MatmulBeforeMovement(),
    PadBeforeReshape(),
    TransposeAcrossReshape(),
    TransposeBeforeReverse(),
)

_Piece = tuple[int, int]
Pieces = dict[int, list[_Piece]]


def _common_pieces(before: Sequence[_Piece], after: Sequence[_Piece]) -> tuple[Pieces, Pieces] | None:
    """The common factors (number, size) of each dimension (axis, size) before and after a reshape; None without any."""
    groups = reshape_groups(tuple(dim for _, dim in before), tuple(dim for _, dim in after))
    of_source: Pieces = {}
    of_result: Pieces = {}
    count = 0
    for group in groups or ():
        if min(len(group.before), len(group.after)) != 1:
            return None
        axes, sizes = (group.before, before) if len(group.before) > 1 else (group.after, after)
        numbered = [(count + index, sizes[at][1]) for index, at in enumerate(axes)]
        count += len(numbered)
        for owner, axes, pieces in ((of_source, group.before, before), (of_result, group.after, after)):
            for index, at in enumerate(axes):
                owner[pieces[at][0]] = numbered if len(axes) == 1 else [numbered[index]]
    return None if groups is None else (of_source, of_result)


def _has_fusing_producer(value: ir.Value) -> bool:
    """Returns whether `value` comes, possibly moved, from an op whose kernel can fuse elementwise consumers."""
    while _has_one_reader(value) and not isinstance(value.owner, ir.Block):
        if not _is_movement(value):
            return _fuses_consumers(value)
        value = value.owner.operands[0]
    return False


def _has_one_reader(value: ir.Value) -> bool:
    """Returns whether one op reads `value`, beside those that a rewrite left without readers of their own."""
    results = (use.owner.operation.results for use in value.uses)
    return sum(len(made) == 0 or any(next(iter(result.uses), None) for result in made) for made in results) == 1


def _fuses_consumers(value: ir.Value) -> bool:
    """Returns whether the kernel of the op that computes `value` can fuse elementwise consumers."""
    return not isinstance(value.owner, ir.Block) and kernel_class(value.owner) in _FUSES_CONSUMERS


def _is_movement(value: ir.Value) -> bool:
    return any(defining_op(value, kind) is not None for kind in (ReshapeOp, TransposeOp))


def _keeps_rows(moved: ir.Value) -> bool:
    """Returns whether the movement keeps the rows along the last dimension, in any order."""
    shape, source = static_shape(moved), static_shape(moved.owner.operands[0])
    if not shape or not source or shape[-1] != source[-1] or 0 in shape:
        return False
    transpose = defining_op(moved, TransposeOp)
    return transpose is None or transpose.permutation[-1] == len(shape) - 1


def _splits_rows(moved: ir.Value) -> bool:
    """Returns whether `moved` is a reshape that splits every row into parts of the size of its last dimension."""
    shape, source = static_shape(moved), static_shape(moved.owner.operands[0])
    if not shape or not source or 0 in shape or defining_op(moved, ReshapeOp) is None:
        return False
    ends = [math.prod(shape[axis:]) for axis in range(len(shape))]
    return source[-1] in ends


def _adapted_operand(value: ir.Value, moved: ir.Value) -> ir.Value | None:
    """The operand `value`, which is combined with the moved tensor, adapted to the tensor before it was moved."""
    shape, row, source = static_shape(value), static_shape(moved), static_shape(moved.owner.operands[0])
    if shape is None or not row or not source or len(shape) > len(row):
        return None
    if value.type == moved.type and defining_op(moved, ReshapeOp) is not None:
        inner = defining_op(value, ReshapeOp)
        if inner is not None and static_shape(inner.input) == source:
            return inner.input
        # Two kernels behind several movements could take the op from each other without end: it stays.
        is_near = not _is_movement(moved.owner.operands[0])
        is_fused_there = _has_one_reader(value) and _fuses_consumers(value) if is_near else _has_fusing_producer(value)
        return None if is_fused_there else ReshapeOp(value, shape=source).result
    if size_of(value) == 1:
        return ReshapeOp(value, shape=()).result if shape else value
    if size_of(value) != row[-1] or shape[-1] != row[-1]:
        return None
    flat = value if len(shape) == 1 else ReshapeOp(value, shape=(row[-1],)).result
    if _keeps_rows(moved):
        return flat
    if not _splits_rows(moved) or not is_fixed(value):
        return None
    return TileOp(flat, repeats=(source[-1] // row[-1],)).result


def _move_like(moved: ir.Value, value: ir.Value) -> ir.Value:
    """`value`, in place of the tensor that was moved, moved the same way; its last dimension may differ."""
    transpose = defining_op(moved, TransposeOp)
    if transpose is not None:
        return TransposeOp(value, permutation=transpose.permutation).result
    shape, source, row = static_shape(moved), static_shape(moved.owner.operands[0]), static_shape(value)
    assert shape is not None and row is not None
    return ReshapeOp(value, shape=shape if row == source else (*shape[:-1], row[-1])).result
