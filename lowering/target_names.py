"""Names of CPUs as targets, which can be checked without LLVM."""

from __future__ import annotations

from ..runtime.program import PRECISIONS
from ..support.errors import OptionError

X86_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


class TargetError(OptionError):
    """A target that does not exist was named."""


def split_precision(text: str) -> tuple[str, str]:
    """Splits the name of a target into machine and precision; the precision is "f32" if it names none.

    Raises:
        TargetError: there is no such precision.
    """
    machine, plus, precision = text.partition("+")
    if plus and precision not in PRECISIONS:
        raise TargetError(f"unknown precision '{precision}'; known are {', '.join(PRECISIONS)}")
    return machine, precision or "f32"
