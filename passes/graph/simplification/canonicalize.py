"""The pass `stepwell-canonicalize`."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, apply_patterns
from ..patterns import algebra, attention, broadcasting, clamping, dynamic, movement, reductions, rows, taps


@register
@dataclass(frozen=True)
class CanonicalizePass(Pass):
    """Bring ops into the canonical form that the other passes match, and drop ops without effect.

    Ops with dynamic shape operands become static if these are constants. Redundant data movement is removed. Arithmetic
    with constants is simplified if float32 results stay the same. The patterns are in `passes/graph/patterns`.

    ```mlir
    %0 = "stepwell.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %1 = "stepwell.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
    %2 = "stepwell.relu"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    // -->
    %2 = "stepwell.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "stepwell-canonicalize"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point."""
        apply_patterns(op, patterns(), state)


def patterns() -> list[Pattern]:
    """The patterns, in the order in which they are tried."""
    groups = (dynamic, rows, movement, reductions, broadcasting, algebra, clamping, attention, taps)
    return [pattern for group in groups for pattern in group.PATTERNS]
