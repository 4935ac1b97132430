"""The op interface `derivative`: gradients of the operands of an op, from those of its results.

    @DERIVATIVE.attach(TanhOp)
    def tanh(op: TanhOp, gradient: ir.Value) -> Gradients:
        return (lambda: gradient * (1 - op.result * op.result),)

A rule is a vector-Jacobian product. It writes stepwell ops at the insertion point, and may read operands and results of
its op. It returns one entry for each declared operand: a function that builds the gradient when it is asked for, or
`None` if the result does not depend on the operand, or is piecewise constant in it (an index, a mask).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from ...dialects.interfaces import Interface
from ...support.errors import StepwellError

Build = Callable[[], ir.Value]
"""Builds the gradient of one operand at the insertion point. It has the operand's shape, or one that the operand was
broadcast to: the caller then sums the gradient over the broadcast dimensions."""

Gradients = Sequence[Build | None]
"""One entry for each declared operand of an op."""

_Rule = Callable[..., Gradients]
"""Takes an op and the gradient of each of its results; None for a result that is not used."""

DERIVATIVE = Interface[_Rule](
    "derivative", "gradients of the operands, from those of the results", rooms=("passes.differentiation.rules",)
)


class NotDifferentiableError(StepwellError):
    """An op has a derivative, but not with these attributes or operands; the message gives the reason."""


def constant(count: int) -> _Rule:
    """The rule of a piecewise constant op with `count` operands: no operand has a gradient."""

    def rule(op: Any, *gradients: ir.Value | None) -> Gradients:
        return (None,) * count

    return rule
