"""Interfaces that lower stepwell ops to linalg on tensors.

    @LINALG.attach(SoftmaxOp)
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
from ...dialects.interfaces import Interface
from ...passes.infra.base import PassError

Rule = Callable[[Any, list[Any], list[ir.Value]], list[ir.Value]]

LINALG = Interface[Rule]("linalg", "lowering of the op to linalg on tensors", rooms=("lowering.stepwell_to_linalg",))
LINALG_GPU = Interface[Rule](
    "linalg-gpu", "lowering for threads of a GPU, if it differs", rooms=("lowering.stepwell_to_linalg",)
)
LINALG_KERNEL = Interface[Callable[[Any], None]](
    "linalg-kernel", "lowering of a whole kernel with this op at its core", rooms=("lowering.stepwell_to_linalg",)
)


def lower(op: Op, inputs: Sequence[ir.Value | None], outs: Sequence[ir.Value], on_gpu: bool = False) -> list[ir.Value]:
    """Emits the computation of `op`, for a GPU or for CPUs; returns its results.

    Raises:
        PassError: no rule lowers the op.
    """
    rule = (LINALG_GPU.of(type(op)) if on_gpu else None) or LINALG.of(type(op))
    if rule is None:
        raise PassError(f"no rule lowers '{op.OPERATION_NAME}' to linalg", op.operation.location)
    return rule(op, list(inputs), list(outs))
