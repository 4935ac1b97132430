"""The pass `stepwell-fold-transposes`."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.movement import TransposeOp
from ..base import Pass, register
from ..rewriting import Pattern, Replacement, apply_patterns, defining_op


@register
@dataclass(frozen=True)
class FoldTransposesPass(Pass):
    """Let matmul read an operand transposed, instead of transposing it before.

    ```mlir
    %0 = "stepwell.transpose"(%k) {permutation = array<i64: 0, 2, 1>} : (tensor<12x128x32xf32>) -> tensor<12x32x128xf32>
    %1 = "stepwell.matmul"(%q, %0) : (tensor<12x128x32xf32>, tensor<12x32x128xf32>) -> tensor<12x128x128xf32>
    // -->
    %1 = "stepwell.matmul"(%q, %k) {transpose_rhs = true}
        : (tensor<12x128x32xf32>, tensor<12x128x32xf32>) -> tensor<12x128x128xf32>
    ```
    """

    name = "stepwell-fold-transposes"

    def run(self, op: ir.Operation) -> None:
        """Applies the pattern until it fits nowhere."""
        apply_patterns(op, (TransposeIntoMatmul(),))


class TransposeIntoMatmul(Pattern[MatmulOp]):
    """matmul(transpose(x, p), y) --> matmul(transpose(x, p'), y, transpose_lhs), the same for y

    p' is p without the exchange of the last two dimensions. It is done only if p' leaves the last dimension in its place, so
    that whole rows move.
    """

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        lhs, transpose_lhs = _folded(op.lhs, op.transpose_lhs)
        rhs, transpose_rhs = _folded(op.rhs, op.transpose_rhs)
        if (lhs, rhs) == (op.lhs, op.rhs):
            return None
        return MatmulOp(lhs, rhs, transpose_lhs=transpose_lhs, transpose_rhs=transpose_rhs).result


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
