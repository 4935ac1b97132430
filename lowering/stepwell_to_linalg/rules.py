"""Interfaces that lower stepwell ops to linalg on tensors.

    @LINALG.attach(SoftmaxOp)
    def softmax(op: SoftmaxOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]: ...

`inputs` are the lowered operands (signless element types, a bool as i8; an absent operand is None). `outs` are
tensors of the results' types in which the results may be computed. The insertion point and location are set.

An op has a second rule if threads that hold single elements need other code than loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ...dialects.core import Op
from ...dialects.interfaces import INTERFACES, Interface
from ...machines.machine import Machine
from ...passes.infra.base import PassError

LinalgRule = Callable[[Any, list[Any], list[ir.Value]], list[ir.Value]]

_HOME = "lowering.stepwell_to_linalg"
_ROOMS = (_HOME, f"{_HOME}.ordering", f"{_HOME}.positions")

LINALG = Interface[LinalgRule]("linalg", "lowering of the op to linalg on tensors", rooms=_ROOMS)
LINALG_BY_ELEMENT = Interface[LinalgRule](
    "linalg-by-element",
    "lowering to independent elements of the result, if it differs",
    rooms=_ROOMS,
)


@dataclass(frozen=True)
class Lowering:
    """The preferences by which kernels are lowered.

    Attributes:
        rules: the interfaces of rules, the preferred one first.
        machine: the machine.
    """

    rules: Sequence[Interface[LinalgRule]]
    machine: Machine


KernelRule = Callable[[Any, Lowering], None]
"""Lowers a kernel."""

LINALG_KERNEL = Interface[KernelRule](
    "linalg-kernel", "lowering of a whole kernel with this op at its core", rooms=_ROOMS
)


def preferred(names: Sequence[str]) -> Sequence[Interface[LinalgRule]]:
    """Returns interfaces of lowering rules by their names, followed by `linalg`.

    Raises:
        PassError: there is no such interface.
    """
    unknown = [name for name in names if name not in INTERFACES]
    if unknown:
        raise PassError(f"there is no interface '{unknown[0]}'; there are {', '.join(INTERFACES)}")
    return (*(INTERFACES[name] for name in names), LINALG)


def lower(
    op: Op,
    inputs: Sequence[ir.Value | None],
    outs: Sequence[ir.Value],
    rules: Sequence[Interface[LinalgRule]] = (LINALG,),
) -> list[ir.Value]:
    """Emits the computation of `op` by the first of some interfaces that has a rule; returns its results.

    Raises:
        PassError: no rule lowers the op.
    """
    rule = next(filter(None, (interface.of(type(op)) for interface in rules)), None)
    if rule is None:
        raise PassError(f"no rule lowers '{op.OPERATION_NAME}' to linalg", op.operation.location)
    return rule(op, list(inputs), list(outs))
