"""The protocol of backends, which generate code for a family of machines.

    class CubeBackend(CpuBackend):
        family = "cube"

        def names(self) -> Sequence[str]: ...

A package adds a family of targets by the entry point `stepwell.targets`; see `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ..lowering.linalg_to_vector.spaces.space import SearchSpace
from ..lowering.target import Target
from ..passes.infra.pipeline import Pipeline
from ..passes.infra.state import CompileState
from ..runtime.program import Program


@dataclass(frozen=True)
class Phase:
    """A named level of the IR.

    Attributes:
        name: the name, as in `--compile-to=NAME`.
        summary: describes the IR in one line.
        pipeline: returns the pipeline from the previous phase, for a target by its name.
        check: checks the invariants of the phase; raises PassError.
    """

    name: str
    summary: str
    pipeline: Callable[[str], Pipeline]
    check: Callable[[ir.Module], None]


class Backend(ABC):
    """Code generation for a family of machines.

    All methods take targets by their names, such as "x86-64-v3" or "cuda:sm_90a+tf32".

    Attributes:
        family: the part of a target's name before the colon, if it has one.
        placed: the name of the phase in which all buffers have their offsets in memory.
        call_attributes: names of the attributes of kernels, in the phase `placed`, that their callers need besides the
            kernel's type when the kernel is compiled separately.
        compiles_ahead: whether kernels of the imported module are compiled speculatively while its passes run, because
            compiling takes much longer than the passes.
        runs_loops: whether @main may contain any control flow.
        counts_elements: whether there are kernels for ops whose number of results depends on data.
    """

    family: str
    placed: str
    call_attributes: tuple[str, ...]
    compiles_ahead: bool = False
    runs_loops: bool = True
    counts_elements: bool = True

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Returns the names of the targets, for help and messages; "cpu:NAME" stands for many."""

    @abstractmethod
    def target(self, name: str) -> Target:
        """Returns a target by its name, which may end in "+" and a precision.

        Raises:
            TargetError: there is no such target.
        """

    @abstractmethod
    def graph(self, name: str) -> Pipeline:
        """Returns the pipeline from the phase `import` to the phase `graph`."""

    def with_parameters(self, name: str) -> Pipeline:
        """Returns the passes at the end of the phase `graph` that read the contents of parameters."""
        return Pipeline()

    @abstractmethod
    def form_kernels(self, name: str) -> Pipeline:
        """Returns the first half of the pipeline to the phase `kernels`: kernels still consist of stepwell ops."""

    @abstractmethod
    def lower_kernels(self, name: str) -> Pipeline:
        """Returns the second half of the pipeline to the phase `kernels`: kernels become linalg."""

    @abstractmethod
    def phases(self) -> Sequence[Phase]:
        """Returns the phases after `kernels`, in order."""

    @abstractmethod
    def emit(self, module: ir.Module, name: str, state: CompileState, threads: int) -> dict[str, bytes]:
        """Generates code from a module in the last phase.

        Args:
            module: a program, or a library of kernels.
            name: the target's name.
            state: the state of the compile.
            threads: number of kernels that are compiled concurrently.

        Returns:
            The code of each kernel by its name, and that of @main by the name of the program's entry.

        Raises:
            CodegenError: the code generator rejected a function.
        """

    @abstractmethod
    def assembly(self, module: ir.Module, name: str, threads: int) -> dict[str, str]:
        """Generates readable machine code by kernel, with `.loc` directives for the lines of the module's locations.

        Raises:
            CodegenError: the code generator rejected a function.
        """

    def finish(self, program: Program, module: ir.Module) -> Program:
        """Adds to a program the fields that only programs of this family have."""
        return program

    def kernel_facts(self, kernel: ir.Operation) -> Mapping[str, Any]:
        """Returns the further facts of a kernel that reports show for this family, as JSON values by title.

        Args:
            kernel: the kernel in the phase `placed`.
        """
        return {}

    def search_space(self, kernel: ir.Operation, name: str) -> SearchSpace | None:
        """Returns the schedules that a tuner may choose for a kernel; None if there are none.

        Args:
            kernel: a copy of the kernel in the phase `kernels`, which may be changed.
            name: the target's name.
        """
        return None

    def memory_bytes(self) -> int | None:
        """Returns the size of the memory that programs use, if it is known at compile time."""
        return None
