"""Names of targets, which can be checked without LLVM."""

from __future__ import annotations

from ..runtime.program import PRECISIONS
from ..support.errors import StepwellError

X86_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
GPUS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a")


class TargetError(StepwellError, ValueError):
    """A target that does not exist was named."""


def check_target(text: str) -> None:
    """Checks the name of a target, without loading LLVM unless the name holds one of LLVM's CPU names.

    Raises:
        TargetError: there is no such target; the message lists the known ones.
    """
    machine = split_precision(text)[0]
    family, _, cpu = machine.partition(":")
    if family in ("cpu", "aarch64") and cpu:
        from .target import Target  # loads LLVM, the only source of its CPU names

        Target.parse(text)
    elif machine not in ("cpu", "aarch64", *X86_LEVELS, *(f"cuda:{name}" for name in GPUS)):
        raise unknown_target(machine)


def split_precision(text: str) -> tuple[str, str]:
    """Splits the name of a target into machine and precision; the precision is "f32" if it names none.

    Raises:
        TargetError: there is no such precision.
    """
    machine, plus, precision = text.partition("+")
    if plus and precision not in PRECISIONS:
        raise TargetError(f"unknown precision '{precision}'; known are {', '.join(PRECISIONS)}")
    return machine, precision or "f32"


def unknown_target(machine: str) -> TargetError:
    """Returns the error for a machine without a known target."""
    names = ["cpu", "cpu:NAME", *X86_LEVELS, "aarch64", "aarch64:NAME", *(f"cuda:{name}" for name in GPUS)]
    return TargetError(f"unknown target '{machine}'; known are {', '.join(names)}")
