"""The loader of programs for NVIDIA GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..cuda import devices
from ..execution.loaded_launches import LoadedLaunches, RangedLaunches
from ..facts import CompileFacts
from ..program import CodeTarget, Program
from .loader import Estimates, Loader, Resident

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder
    from ..execution.workspace import LoadedProgram


class CudaLoader(Loader):
    """Loads programs onto a GPU, or the simulator."""

    def missing(self, target: CodeTarget) -> list[str]:
        return devices.missing(target.cpu)

    def rank(self, target: CodeTarget) -> tuple[int, int]:
        return 1, int(re.sub(r"\D", "", target.cpu))

    def load(self, program: Program, resident: Resident, recorder: CallRecorder | None) -> LoadedProgram:
        return LoadedLaunches(program, recorder)

    def bind(self, loaded: LoadedProgram, sizes: Mapping[str, int]) -> LoadedProgram:
        assert isinstance(loaded, LoadedLaunches)
        return RangedLaunches(loaded, sizes)

    def estimates(self, program: Program, facts: CompileFacts, threads: int) -> Estimates:
        from .cuda_estimates import estimates_of  # only reports need it

        return estimates_of(program, facts)
