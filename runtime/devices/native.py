"""The loader of native code for CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import processor
from ..execution.ranged_call import RangedCall
from ..execution.workspace import LoadedProgram
from ..facts import CompileFacts
from ..native import loader
from ..program import CodeTarget, Program
from .loader import Estimates, Loader, Resident

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder


class NativeLoader(Loader):
    """Loads native code into this process.

    Loaders of devices that a program's native code drives are subclasses, which provide the functions that it calls.
    """

    links = True

    def symbols(self, program: Program) -> Mapping[str, int]:
        """Returns the addresses of functions that a program's code calls, besides those of the process, by name."""
        return {}

    def missing(self, target: CodeTarget) -> list[str]:
        return processor.missing(target)

    def rank(self, target: CodeTarget) -> tuple[int, int]:
        return 0, len(processor.needs(target))

    def load(self, program: Program, resident: Resident, recorder: CallRecorder | None) -> LoadedProgram:
        arrays = [resident(array) for array in program.parameters.values()]
        symbols = self.symbols(program)
        code = loader.load(program, symbols) if recorder is None else recorder.load(program, symbols)
        return LoadedProgram(program, code, arrays)

    def bind(self, loaded: LoadedProgram, sizes: Mapping[str, int]) -> LoadedProgram:
        return RangedCall(loaded, sizes)

    def estimates(self, program: Program, facts: CompileFacts, threads: int) -> Estimates:
        from .cpu_estimates import estimates_of  # only reports need it

        return estimates_of(program, facts, threads)
