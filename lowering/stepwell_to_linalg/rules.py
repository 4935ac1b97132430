"""Registry of the rules that lower stepwell ops to linalg on tensors, one per op class.

    @lowers(SoftmaxOp)
    def softmax(op: SoftmaxOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]: ...

`inputs` are the lowered operands (signless element types, a bool as i8; an absent operand is None). `outs` are
tensors of the results' types in which the results may be computed. The insertion point and location are set.

An op has a second rule if threads of a GPU need other code than loops of a CPU.
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
    """Declares a rule for some op classes, optionally for GPUs only.

    Raises:
        ValueError: an op class has a rule already.
    """
    rules = _GPU_RULES if on_gpu else _RULES

    def declare(rule: Rule) -> Rule:
        for kind in kinds:
            if rules.setdefault(kind, rule) is not rule:
                raise ValueError(f"two rules lower {kind.OPERATION_NAME}")
        return rule

    return declare


def lower(op: Op, inputs: Sequence[ir.Value | None], outs: Sequence[ir.Value], on_gpu: bool = False) -> list[ir.Value]:
    """Emits the computation of `op`, for a GPU or for CPUs; returns its results.

    Raises:
        PassError: no rule lowers the op.
    """
    rule = (_GPU_RULES if on_gpu and type(op) in _GPU_RULES else _RULES).get(type(op))
    if rule is None:
        raise PassError(f"no rule lowers '{op.OPERATION_NAME}' to linalg", op.operation.location)
    return rule(op, list(inputs), list(outs))
