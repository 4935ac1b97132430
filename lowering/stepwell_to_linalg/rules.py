"""The rules that turn stepwell ops into linalg on tensors, one per op class.

    @lowers(SoftmaxOp)
    def softmax(op: SoftmaxOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]: ...

`inputs` are the operands as lowered already (signless element types, a bool as i8; an absent operand is None), `outs`
tensors of the results' types in which the results may be made. The insertion point and location are set.

Where threads of a GPU want it otherwise than loops of a CPU, there are two rules for an op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from ...dialects.core import Op
from ...passes.base import PassError

Rule = Callable[[Any, list[Any], list[ir.Value]], list[ir.Value]]

_RULES: dict[type[Op], Rule] = {}
_GPU_RULES: dict[type[Op], Rule] = {}


def lowers(*kinds: type[Op], on_gpu: bool = False) -> Callable[[Rule], Rule]:
    """Declares the rule for some op classes, or that for GPUs alone.

    Raises:
        ValueError: one of them has a rule already.
    """
    rules = _GPU_RULES if on_gpu else _RULES

    def declare(rule: Rule) -> Rule:
        for kind in kinds:
            if rules.setdefault(kind, rule) is not rule:
                raise ValueError(f"two rules lower {kind.OPERATION_NAME}")
        return rule

    return declare


def lower(op: Op, inputs: Sequence[ir.Value | None], outs: Sequence[ir.Value], on_gpu: bool = False) -> list[ir.Value]:
    """Emits what `op` computes, for a GPU or for CPUs; returns its results.

    Raises:
        PassError: no rule lowers the op.
    """
    rule = (_GPU_RULES if on_gpu and type(op) in _GPU_RULES else _RULES).get(type(op))
    if rule is None:
        raise PassError(f"no rule lowers '{op.OPERATION_NAME}' to linalg", op.operation.location)
    return rule(op, list(inputs), list(outs))
