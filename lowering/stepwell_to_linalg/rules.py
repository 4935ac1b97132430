"""The rules that turn stepwell ops into linalg on tensors, one per op class.

    @lowers(SoftmaxOp)
    def softmax(op: SoftmaxOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]: ...

`inputs` are the operands as lowered already (signless element types, a bool as i8; an absent operand is None), `outs`
tensors of the results' types in which the results may be made. The insertion point and location are set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from ...dialects.core import Op
from ...passes.base import PassError

Rule = Callable[[Any, list[Any], list[ir.Value]], list[ir.Value]]

_RULES: dict[type[Op], Rule] = {}


def lowers(*kinds: type[Op]) -> Callable[[Rule], Rule]:
    """Declares the rule for some op classes.

    Raises:
        ValueError: one of them has a rule already.
    """

    def declare(rule: Rule) -> Rule:
        for kind in kinds:
            if _RULES.setdefault(kind, rule) is not rule:
                raise ValueError(f"two rules lower {kind.OPERATION_NAME}")
        return rule

    return declare


def lower(op: Op, inputs: Sequence[ir.Value | None], outs: Sequence[ir.Value]) -> list[ir.Value]:
    """Emits what `op` computes; returns its results.

    Raises:
        PassError: no rule lowers the op.
    """
    rule = _RULES.get(type(op))
    if rule is None:
        raise PassError(f"no rule lowers '{op.OPERATION_NAME}' to linalg", op.operation.location)
    return rule(op, list(inputs), list(outs))
