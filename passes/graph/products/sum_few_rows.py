"""The pass `stepwell-sum-few-rows`: computes products of few rows with a transposed matrix as reductions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise.arithmetic import MulOp
from ....dialects.stepwell.movement import ReshapeOp, TransposeOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ....machines.costs import elementwise_ns, more_ns_of_sums
from ....machines.machine import Machine
from ...infra.base import Pass, register
from ...infra.machine_option import machine_of
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from ..values import dtype_of, is_fixed, static_shape

_MOVES = 3
"""Number of times that transposing moves an element: it is read, its new line is read, and it is written there."""

_MOST_ROWS = 8
"""Maximum number of rows; kernels of contractions multiply more rows from registers, which saves what they move."""


@register
@dataclass(frozen=True)
class SumFewRowsPass(Pass):
    """Compute products of few rows with a transposed matrix by multiply and sum, unless the matrix is a parameter.

    Kernels of contractions hold adjacent columns in a vector, so that a matrix stored along the contracted dimension is
    transposed first: once if it is a parameter, and otherwise in each run. For few rows, that takes longer than the
    product. Products along the contracted dimension fill vectors without it:

    ```mlir
    %0 = "stepwell.matmul"(%x, %y) {transpose_rhs = true} : (tensor<1x64xf32>, tensor<100x64xf32>) -> tensor<1x100xf32>
    // -->
    %1 = "stepwell.mul"(%y, %x) : (tensor<100x64xf32>, tensor<1x64xf32>) -> tensor<100x64xf32>
    %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 1>, keepdims = false} : (tensor<100x64xf32>) -> tensor<100xf32>
    %0 = "stepwell.reshape"(%2) {shape = array<i64: 1, 100>} : (tensor<100xf32>) -> tensor<1x100xf32>
    ```

    Preconditions: weights are not packed yet.

    Attributes:
        machine: description of another machine than the target's.
    """

    name = "stepwell-sum-few-rows"
    machine: str = ""

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the pattern to every product."""
        apply_patterns(op, (SumOfRows(machine_of(self.machine, state)),), state)


@dataclass(frozen=True)
class SumOfRows(Pattern[MatmulOp]):
    """matmul(x [M, K], y [N, K]) {transpose_rhs} --> transpose(reduce_sum(mul(y [N, 1, K], x [1, M, K])))"""

    machine: Machine
    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        left, right = static_shape(op.lhs), static_shape(op.rhs)
        is_wide = dtype_of(op.rhs) in (np.float32, np.float64)
        if left is None or right is None or not is_wide or not op.transpose_rhs or op.transpose_lhs or is_fixed(op.rhs):
            return None
        if len(right) > 2 and left[:-2] != right[:-2]:
            return Refusal("the operands are not matrices in equal batches")
        batch, (columns, depth), size = right[:-2], tuple(right)[-2:], dtype_of(op.rhs).itemsize
        rows = math.prod(left[len(batch) : -1])
        more = more_ns_of_sums(self.machine, rows, depth, size)
        if rows > _MOST_ROWS or more > elementwise_ns(self.machine, _MOVES * depth * size, 0):
            return Refusal(f"{rows} rows of {depth} are too many for sums along the rows")
        target = tuple(ir.RankedTensorType(op.result.type).shape)
        if rows == 1:
            x = ReshapeOp(op.lhs, shape=(*batch, 1, depth)).result
            return ReshapeOp(_summed(MulOp(op.rhs, x).result), shape=target).result
        x = ReshapeOp(op.lhs, shape=(*batch, 1, rows, depth)).result
        y = ReshapeOp(op.rhs, shape=(*batch, columns, 1, depth)).result
        count = len(batch)
        sums = TransposeOp(_summed(MulOp(y, x).result), permutation=(*range(count), count + 1, count)).result
        return ReshapeOp(sums, shape=target).result


def _summed(products: ir.Value) -> ir.Value:
    return ReduceSumOp(products, axes=(ir.RankedTensorType(products.type).rank - 1,), keepdims=False).result
