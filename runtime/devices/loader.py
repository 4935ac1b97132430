"""The protocol of loaders, which run the programs of a family of devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..facts import CompileFacts
from ..program import CodeTarget, KernelInfo, Program

if TYPE_CHECKING:
    from ..execution.recorder import CallRecorder
    from ..execution.workspace import LoadedProgram

Resident = Callable[[np.ndarray], np.ndarray]
"""Returns a parameter's contents dense and aligned; programs that share a parameter share its memory."""


@dataclass(frozen=True)
class Estimates:
    """Estimates of the time of a program's kernels, for reports.

    Attributes:
        describe: returns the entries on a kernel's code and its estimated time.
        vector_bits: width of the machine's vectors in bits; 0 if it has none.
        peaks: the machine's peaks, as the report's record has them.
    """

    describe: Callable[[KernelInfo], dict[str, Any]]
    vector_bits: int
    peaks: Mapping[str, Any]


class Loader(ABC):
    """Checks, loads and estimates the programs of a family of devices.

    Attributes:
        links: whether artefacts hold programs as shared libraries, where the system can link.
    """

    links: bool = False

    @abstractmethod
    def missing(self, target: CodeTarget) -> list[str]:
        """Returns what this machine lacks to run code for a target; empty if the code runs."""

    @abstractmethod
    def rank(self, target: CodeTarget) -> tuple[int, int]:
        """Returns a sort key for targets that run here; the greatest is best.

        The first number ranks families: CPUs have 0.
        """

    @abstractmethod
    def load(self, program: Program, resident: Resident, recorder: CallRecorder | None) -> LoadedProgram:
        """Loads a program into this process or onto the device.

        Args:
            program: the program.
            resident: returns parameters as native code reads them.
            recorder: records the calls, for profiles; None otherwise.

        Raises:
            ArtefactError: the program cannot be loaded.
        """

    @abstractmethod
    def bind(self, loaded: LoadedProgram, sizes: Mapping[str, int]) -> LoadedProgram:
        """Returns the call of a program for a range of sizes, at given sizes."""

    @abstractmethod
    def estimates(self, program: Program, facts: CompileFacts, threads: int) -> Estimates:
        """Returns what a report says of a program's kernels.

        Args:
            program: the program.
            facts: the compiler's facts about it.
            threads: number of threads of a call.
        """
