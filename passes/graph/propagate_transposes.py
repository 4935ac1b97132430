"""The pass `stepwell-propagate-transposes`."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..base import Pass, register
from ..rewriting import apply_patterns
from .patterns import reshapes, transposes
from .patterns.movement import DropIdentity, ReshapeOfReshape, TransposeOfTranspose


@register
@dataclass(frozen=True)
class PropagateTransposesPass(Pass):
    """Move transposes down the program until they cancel, or stand at its end or before an op that they cannot pass.

    ```mlir
    %0 = "stepwell.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x6x8xf32>) -> tensor<1x8x4x6xf32>
    %1 = "stepwell.relu"(%0) : (tensor<1x8x4x6xf32>) -> tensor<1x8x4x6xf32>
    %2 = "stepwell.transpose"(%1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x6xf32>) -> tensor<1x4x6x8xf32>
    // -->
    %2 = "stepwell.relu"(%x) : (tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
    ```

    Transposes that move only dimensions of one element stay transposes here, as they are to cancel too;
    `stepwell-canonicalize` makes reshapes of those that are left.
    """

    name = "stepwell-propagate-transposes"

    def run(self, op: ir.Operation) -> None:
        """Applies the patterns until none fits."""
        merging = (DropIdentity(), TransposeOfTranspose(), ReshapeOfReshape())
        apply_patterns(op, (*merging, *transposes.PATTERNS, *reshapes.PATTERNS))
