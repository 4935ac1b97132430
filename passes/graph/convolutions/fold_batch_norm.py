"""The pass `stepwell-fold-batch-norm`: folds batch norms into the weights before them."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import apply_patterns
from ..patterns import batch_norm


@register
@dataclass(frozen=True)
class FoldBatchNormPass(Pass):
    """Fold batch norms, per-channel factors and terms into the weights and biases of the preceding op.

    A batch norm that does not follow a convolution becomes a factor and a term.

    ```mlir
    %0 = "stepwell.conv"(%x, %w) {...} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    %1 = "stepwell.mul"(%0, %c) : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
    // -->
    %c1 = "stepwell.reshape"(%c) {shape = array<i64: 4, 1, 1, 1>} : (tensor<4x1x1xf32>) -> tensor<4x1x1x1xf32>
    %w1 = "stepwell.mul"(%w, %c1) : (tensor<4x3x3x3xf32>, tensor<4x1x1x1xf32>) -> tensor<4x3x3x3xf32>
    %1 = "stepwell.conv"(%x, %w1) {...} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    ```

    Preconditions: weights, factors and terms are parameters, constants or computed from these.
    """

    name = "stepwell-fold-batch-norm"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point."""
        apply_patterns(op, batch_norm.PATTERNS, state)
