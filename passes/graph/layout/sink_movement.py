"""The pass `stepwell-sink-movement`: moves data movement below other ops."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import apply_patterns
from ..patterns import pointwise
from ..patterns.movement import DropIdentity, ReshapeOfReshape, TransposeOfTranspose


@register
@dataclass(frozen=True)
class SinkMovementPass(Pass):
    """Sink transposes and reshapes below ops on single elements and rows.

    These ops can then be fused into the kernel that computes the moved tensor, and consecutive movement ops merge.

    ```mlir
    %1 = "stepwell.packed_matmul"(%0, %w) {...} : (tensor<4x8xf32>, tensor<48xf32>) -> tensor<4x6xf32>
    %2 = "stepwell.reshape"(%1) {shape = array<i64: 4, 2, 3>}
    %3 = "stepwell.transpose"(%2) {permutation = array<i64: 1, 0, 2>}
    %4 = "stepwell.relu"(%3)
    // -->
    %2 = "stepwell.relu"(%1)
    %3 = "stepwell.reshape"(%2) {shape = array<i64: 4, 2, 3>}
    %4 = "stepwell.transpose"(%3) {permutation = array<i64: 1, 0, 2>}
    ```

    Preconditions: weights are packed, so that it is known which ops work on rows.
    """

    name = "stepwell-sink-movement"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point."""
        apply_patterns(op, (DropIdentity(), TransposeOfTranspose(), ReshapeOfReshape(), *pointwise.PATTERNS), state)
