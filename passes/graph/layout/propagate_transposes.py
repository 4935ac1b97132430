"""The pass `stepwell-propagate-transposes`: sinks and cancels transposes."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import apply_patterns
from ..patterns import reshapes, transposes
from ..patterns.movement import DropIdentity, ReshapeOfReshape, TransposeOfTranspose


@register
@dataclass(frozen=True)
class PropagateTransposesPass(Pass):
    """Sink transposes until they cancel, reach the end of the program, or meet an op that they cannot pass.

    ```mlir
    %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
    %1 = "stepwell.relu"(%0) : (tensor<1x8x4x6xf32>) -> tensor<1x8x4x6xf32>
    %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x6xf32>) -> tensor<1x4x6x8xf32>
    // -->
    %2 = "stepwell.relu"(%x) : (tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
    ```

    Transposes of unit dimensions only stay transposes here, because they may cancel too; `stepwell-canonicalize` turns
    the remaining ones into reshapes.
    """

    name = "stepwell-propagate-transposes"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point."""
        merging = (DropIdentity(), TransposeOfTranspose(), ReshapeOfReshape())
        apply_patterns(op, (*merging, *transposes.PATTERNS, *reshapes.PATTERNS), state)
        apply_patterns(op, (transposes.JoinTransposes(),), state)
