"""AArch64 CPUs, with NEON."""

from __future__ import annotations

from collections.abc import Sequence

from .cpu import CpuBackend
from .names import NAMES


class ArmBackend(CpuBackend):
    """Code generation for AArch64 CPUs."""

    family = "aarch64"

    def names(self) -> Sequence[str]:
        return NAMES[self.family]
