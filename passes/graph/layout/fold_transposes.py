"""The pass `stepwell-fold-transposes`: folds transposes into matmuls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.movement import ReshapeOp, TransposeOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns, defining_op
from ..patterns.reshapes import reshape_groups
from ..values import is_fixed, rank_of, static_shape


@register
@dataclass(frozen=True)
class FoldTransposesPass(Pass):
    """Let matmul read an operand transposed, instead of transposing it first.

    ```mlir
    %0 = "stepwell.transpose"(%k) {permutation = array<i64: 0, 2, 1>} : (tensor<12x128x32xf32>) -> tensor<12x32x128xf32>
    %1 = "stepwell.matmul"(%q, %0) : (tensor<12x128x32xf32>, tensor<12x32x128xf32>) -> tensor<12x128x128xf32>
    // -->
    %1 = "stepwell.matmul"(%q, %k) {transpose_rhs = true}
        : (tensor<12x128x32xf32>, tensor<12x128x32xf32>) -> tensor<12x128x128xf32>
    ```
    """

    name = "stepwell-fold-transposes"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point."""
        apply_patterns(op, (TransposeIntoMatmul(), FlattenIntoMatmul()), state)


class TransposeIntoMatmul(Pattern[MatmulOp]):
    """matmul(transpose(x, p), y) --> matmul(transpose(x, p'), y, transpose_lhs), the same for y

    p' is p without the swap of the last two dimensions. Applies only if p' keeps the last dimension in place, so
    that whole rows move.
    """

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        lhs, transpose_lhs = _folded(op.lhs, op.transpose_lhs)
        rhs, transpose_rhs = _folded(op.rhs, op.transpose_rhs)
        if (lhs, rhs) == (op.lhs, op.rhs):
            return None
        depth: dict[str, Any] = {"depth": op.depth} if op.depth >= 0 else {}
        return MatmulOp(lhs, rhs, transpose_lhs=transpose_lhs, transpose_rhs=transpose_rhs, **depth).result


def _folded(value: ir.Value, is_transposed: bool) -> tuple[ir.Value, bool]:
    transpose = defining_op(value, TransposeOp)
    if transpose is None:
        return value, is_transposed
    *batch, row, column = transpose.permutation
    if row != len(batch) + 1:
        return value, is_transposed
    rest = (*batch, column, row)
    if rest == tuple(range(len(rest))):
        return transpose.input, not is_transposed
    return TransposeOp(transpose.input, permutation=rest).result, not is_transposed


class FlattenIntoMatmul(Pattern[MatmulOp]):
    """matmul(reshape(transpose(x, p)), w) --> matmul(reshape(x), w with its rows in the order of x), for a fixed w

    A fully connected layer after an image then reads the image with channels last.
    """

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        flat = defining_op(op.lhs, ReshapeOp)
        transpose = None if flat is None else defining_op(flat.input, TransposeOp)
        if flat is None or transpose is None or op.transpose_lhs or rank_of(op.rhs) != 2:
            return None
        shape, p = static_shape(transpose.result), transpose.permutation
        groups = None if shape is None else reshape_groups(shape, flat.shape)
        if shape is None or not groups or not groups[-1].before or groups[-1].after != (len(flat.shape) - 1,):
            return None
        first = groups[-1].before[0]
        if p[:first] != tuple(range(first)):
            return Refusal("the transpose also moves dimensions that are not contracted")
        if not is_fixed(op.rhs):
            return Refusal("the weight is not a parameter")
        order = sorted(range(first, len(p)), key=p.__getitem__)
        axes = tuple(axis - first for axis in order)
        weight = _reordered(op.rhs, shape[first:], axes, by_columns=op.transpose_rhs)
        rows = ReshapeOp(transpose.input, shape=flat.shape).result
        return MatmulOp(rows, weight, transpose_rhs=op.transpose_rhs).result


def _reordered(weight: ir.Value, dims: tuple[int, ...], axes: tuple[int, ...], by_columns: bool) -> ir.Value:
    """A matrix whose rows (or columns) are indices into a tensor of `dims`, reordered for a transpose by `axes`."""
    rows, columns = ir.RankedTensorType(weight.type).shape
    if by_columns:
        wide = ReshapeOp(weight, shape=(rows, *dims)).result
        moved = TransposeOp(wide, permutation=(0, *(axis + 1 for axis in axes))).result
    else:
        wide = ReshapeOp(weight, shape=(*dims, columns)).result
        moved = TransposeOp(wide, permutation=(*axes, len(dims))).result
    return ReshapeOp(moved, shape=(rows, columns)).result
