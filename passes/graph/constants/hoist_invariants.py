"""The pass `stepwell-hoist-invariants`: loop-invariant code motion."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects.registry import OPS
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.named_ops import is_inside
from ...ir.rewriting import find_op, walk

_LOOPS = ("scf.for", "scf.while")


@register
@dataclass(frozen=True)
class HoistInvariantsPass(Pass):
    """Compute loop-invariant values before the loop.

    ```mlir
    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<4x4xf32>) {
      %0 = "stepwell.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = "stepwell.matmul"(%s, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      scf.yield %1
    // -->
    %0 = "stepwell.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %x) -> (tensor<4x4xf32>) {
      %1 = "stepwell.matmul"(%s, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      scf.yield %1
    ```

    Stepwell ops are pure, so hoisting is safe even if the loop has no iterations.
    """

    name = "stepwell-hoist-invariants"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Visits the loops from the inside out, so that hoisted ops may leave the outer loops too."""
        if find_op(op, lambda inner: inner.name in _LOOPS) is None:
            return
        for loop in reversed([inner for inner in walk(op) if inner.name in _LOOPS]):
            for region in loop.regions:
                for inner in [item.operation for block in region for item in block.operations]:
                    if inner.name in OPS and not any(_is_inside(value, loop) for value in inner.operands):
                        inner.move_before(loop)


def _is_inside(value: ir.Value, loop: ir.Operation) -> bool:
    """Returns whether a value is defined inside a loop."""
    if isinstance(value.owner, ir.Block):
        return value.owner.owner.operation == loop or is_inside(value.owner.owner.operation, loop)
    return is_inside(value.owner.operation, loop)
