"""Warnings about known causes of slow models. Reports list the same causes.

Nodes on the host have a warning of their own (fallback.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...support.errors import SlowWarning
from ...support.warning import warn
from .. import processor
from ..program import CodeTarget, Program


def unused_features(target: CodeTarget) -> list[str]:
    """Returns wider vector instruction sets that this machine has and code for a target does not use."""
    if target.device != "cpu":
        return []
    here, needs = processor.features(), set(processor.needs(target))
    if here is None or processor.missing(target) or not (target.features or target.cpu in processor.LEVELS):
        return []
    return [name for name in ("avx512f", "avx2", "fma") if name in here and name not in needs]


def generic_code(programs: Iterable[Program]) -> list[str]:
    """Returns a line for each target whose code leaves some of this machine's instruction sets unused."""
    found = []
    for target in dict.fromkeys(program.target for program in programs):
        if unused := unused_features(target):
            text = f"the code is for {target.cpu}, and does not use this machine's {', '.join(unused)}"
            found.append(f"{text}: compile for 'cpu'")
    return found


def warn_of(model: str, reasons: Iterable[str]) -> None:
    """Issues one warning with all reasons; none if there are no reasons."""
    if listed := "; ".join(reasons):
        warn(f"{model}: slower than it could be: {listed}", SlowWarning)
