"""x86-64 CPUs: the levels of the psABI, and processors by LLVM's names."""

from __future__ import annotations

from collections.abc import Sequence

from .cpu import CpuBackend
from .names import NAMES


class X86Backend(CpuBackend):
    """Code generation for x86-64 CPUs."""

    family = "x86_64"

    def names(self) -> Sequence[str]:
        return NAMES[self.family]
