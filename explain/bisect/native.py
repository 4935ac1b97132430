"""Compiles and runs a module of kernels by any pipeline: with the usual passes, or simpler substitutes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects import discardable
from ...driver import route
from ...driver.compile.program import program_of
from ...driver.workers.library import generate
from ...passes.infra.base import Pass
from ...passes.infra.elements import Nested, PassElement, Upstream
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.state import CompileState
from ...runtime.compiled_model import CompiledModel
from ...runtime.executable import Executable
from ...runtime.native import poison
from ...runtime.program import Program

SUBSTITUTES: Mapping[str, tuple[PassElement | str, ...]] = {
    # Kernels stay linalg on whole tensors, which upstream lowers to plain loops.
    "stepwell-apply-schedules": (),
    "stepwell-vectorize": (),
    "stepwell-round-without-division": (),
    # Calls functions of the C library: see `partly_simple`.
    "stepwell-approximate-math": (),
    # Buffers do not share memory.
    "stepwell-plan-memory": ("stepwell-plan-memory{reuse=false}",),
    "stepwell-plan-workspaces": ("stepwell-plan-workspaces{reuse=false}",),
    "stepwell-eliminate-empty-tensors": (),
    "buffer-hoisting": (),
    "buffer-loop-hoisting": (),
    "promote-buffers-to-stack": (),
    # No threads.
    "stepwell-choose-parallel-loops": (),
    "stepwell-share-out-loops": ("scf-forall-to-for",),
    "stepwell-hoist-stack": (),
    "stepwell-lower-vectors": (),
    "stepwell-stream-stores": (),
}
"""Simpler substitutes of passes, with the same result or its necessary part; empty if the pass may be left out."""

_APPROXIMATE = "stepwell-approximate-math"
_SCALARS_UNTIL = "convert-vector-to-llvm"

NEEDED = ("stepwell-lower-vectors",)
"""Passes that some vector code needs: upstream does not lower all of it."""


def lowering_passes(target: str) -> list[PassElement]:
    """Returns the passes from kernels of stepwell ops to the input of code generation, each as one element."""
    whole = list(route.lower_kernels_pipeline(target).elements)
    for phase in route.between("kernels", route.last(target), target):
        whole += phase.pipeline(target).elements
    return [element for item in whole for element in _single(item)]


def _single(element: PassElement) -> Iterator[PassElement]:
    if not isinstance(element, Nested):
        yield element
        return
    for inner in element.elements:
        for single in _single(inner):
            yield Nested(element.anchor, (single,))


def name_of(element: PassElement) -> str:
    """Returns the name of the one pass in an element."""
    while isinstance(element, Nested):
        element = element.elements[0]
    assert isinstance(element, Pass | Upstream)
    return element.name


def partly_simple(elements: Sequence[PassElement], count: int, kept: Collection[str] = ()) -> Pipeline:
    """Returns the first `count` passes, followed by the substitutes of the others except those in `kept`."""
    rest: list[PassElement | str] = []
    calls_library = any(name_of(element) == _APPROXIMATE for element in elements[count:])
    for element in elements[count:]:
        name = name_of(element)
        if calls_library and name == _SCALARS_UNTIL:
            rest.append("convert-math-to-libm")
        rest += (element,) if name in kept else SUBSTITUTES.get(name, (element,))
    return Pipeline((*elements[:count], *rest))


@dataclass
class NativeCompiler:
    """Compiles modules of kernels by given pipelines.

    Attributes:
        state: has the target, and keeps the upstream pipelines that many compiles use.
    """

    state: CompileState

    def compile(
        self, module: ir.Module | ir.Operation, pipeline: Pipeline, parameters: Mapping[str, np.ndarray]
    ) -> Program:
        """Compiles a copy of a module of kernels by a pipeline to the last phase.

        Raises:
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM rejected a function.
        """
        state = self.state.for_another()
        copy = ir.Module.parse(str(module.operation.get_asm(enable_debug_info=True)))
        if not discardable.INTERFACE.is_on(copy.operation):
            Pipeline(("stepwell-record-interface",)).run(copy, verify=False, state=state)
        pipeline.run(copy, verify=False, state=state)
        # Translation of other ops would end the process.
        route.check(route.phase(route.last(state.target), state.target), copy, state)
        return program_of(copy, parameters, state.target, generate(copy, state, 2))


def run(program: Program, inputs: Sequence[np.ndarray], threads: int | None = None) -> list[list[np.ndarray]]:
    """Runs a program once for each pattern with which its outputs and its arena are filled before the run.

    Results that differ depend on memory that was read before it was written.
    """
    executable, found = Executable(CompiledModel(program.inputs, program.outputs, [program]), threads=threads), []
    for pattern in poison.PATTERNS:
        with poison.filled_with(pattern):
            results = executable(*inputs)
        found.append(list(results) if isinstance(results, tuple) else [results])
    return found
