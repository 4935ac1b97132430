"""A pass of another package: `stepwell.Options(passes=[stepwell.At("graph", UseSoftmaxPass())])`."""

from dataclasses import dataclass

from mlir import ir
from stepwell.dialects.stepwell.elementwise import ExpOp
from stepwell.dialects.stepwell.normalization import LogSoftmaxOp, SoftmaxOp
from stepwell.passes.infra.base import Pass, register
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.rewriting import Pattern, apply_patterns, defining_op


class ExpOfLogSoftmax(Pattern):
    """exp(log_softmax(x)) --> softmax(x)"""

    root = ExpOp

    def rewrite(self, op: ExpOp) -> ir.Value | None:
        """Returns the softmax; None if the operand is not a log-softmax."""
        log_softmax = defining_op(op.input, LogSoftmaxOp)
        return None if log_softmax is None else SoftmaxOp(log_softmax.input, axis=log_softmax.axis).result


@register
@dataclass(frozen=True)
class UseSoftmaxPass(Pass):
    """Replace the exponential of a log-softmax by a softmax.

    ```mlir
    %1 = "stepwell.log_softmax"(%0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "stepwell.exp"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // -->
    %2 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    name = "example-use-softmax"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites all functions of a module."""
        apply_patterns(op, [ExpOfLogSoftmax()], state)
