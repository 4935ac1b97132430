"""A model as the tuner sees it: its kernels with their search spaces, and the compile of any choice of schedules."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from mlir import ir

from ..dialects import discardable
from ..dialects.symbols import symbol_of
from ..driver import route
from ..driver.compile.compilation import Compilation, kernel_key
from ..driver.compile.kernel_table import kernel_infos
from ..driver.context import compiler_context
from ..driver.setup import Setup
from ..driver.sources.source import Importable
from ..driver.workers.library import compile_library, library_of
from ..frontend.errors import NeedsContents, UnsupportedError
from ..lowering import invariants
from ..lowering.linalg_to_vector.schedules.base import Schedule
from ..lowering.linalg_to_vector.spaces.space import SearchSpace
from ..passes.infra.state import CompileState
from ..passes.infra.tuning import TunedKernel, Tuning
from ..passes.ir.functions import kernels_in
from ..runtime.cache.cache import Cache
from ..runtime.program import KernelInfo, Program, Shape
from ..targets.registry import backend_of, is_cpu, target_of
from .errors import TuningError

ESTIMATED = "estimated by the cost function"
"""The kind of figures of machines that this process cannot measure on."""
Schedules = Mapping[str, Mapping[str, Any]]
"""Parameters that differ from the default schedule, by the names of kernels."""


@dataclass(frozen=True)
class TunableKernel:
    """A kernel of a model.

    Attributes:
        info: its row in the kernel table.
        space: its search space.
    """

    info: KernelInfo
    space: SearchSpace

    @property
    def name(self) -> str:
        """The kernel's name: a hash of its contents and the target."""
        return self.info.name


@dataclass(frozen=True)
class RemoteModel:
    """A model that other machines of one kind compile and measure.

    Attributes:
        machine: the description of the machine that the code is for.
        kernels: its kernels that have a search space, by name.
    """

    machine: str
    kernels: Mapping[str, TunableKernel]


@dataclass
class TunableModel:
    """A model in the phase `graph`, whose kernels can be compiled with any schedules.

    Attributes:
        compilation: compiles it; its cache keeps the code of candidates.
        module: the model in the phase `graph`.
        state: the state of that compile, with the contents of the parameters.
        formed: the kernels in the first half of the phase `kernels`.
        kernels: those that have a search space, by name.
    """

    compilation: Compilation
    module: ir.Module
    state: CompileState
    formed: ir.Module
    kernels: dict[str, TunableKernel] = field(default_factory=dict)

    @property
    def cache(self) -> Cache:
        """The cache of candidates' code."""
        assert self.compilation.setup.cache is not None
        return self.compilation.setup.cache

    @functools.cached_property
    def machine(self) -> str:
        """The description of the machine that the code is for; of a GPU, whose trials are estimates, it says so."""
        target = self.compilation.target
        if is_cpu(target):
            return target_of(target).to_json()
        return json.dumps({"target": target, "times": ESTIMATED})

    def program(self, schedules: Schedules) -> Program:
        """Compiles the model with the given schedules of some kernels, and the default ones of the others."""
        state = replace(self.state, tuning=_table(schedules), remarks=[])
        return self.compilation.from_graph(_copy(self.module), state)

    def compile_kernel(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Compiles a kernel with a schedule into the cache, if it is not there.

        Raises:
            PassFailure, PassError: the schedule cannot be applied.
            CodegenError: LLVM rejected the kernel.
        """
        kernel = ir.SymbolTable(self.formed.operation)[name].operation
        library = library_of([kernel])  # keeps the copy alive
        (copy,) = kernels_in(library.operation)
        if parameters:
            discardable.SCHEDULE.write(copy, Schedule("tuned", dict(parameters), "").attribute())
        key = kernel_key(copy, self.compilation.plugins)
        if not self.cache.has("kernels", key):
            code = compile_library(library, self.state.for_another())[name]
            self.cache.put("kernels", key, code.encoded())


def _table(schedules: Schedules) -> Tuning:
    entries = [TunedKernel(name, parameters, 1.0, 1.0, 1.0, 1) for name, parameters in schedules.items() if parameters]
    return Tuning.of(entries)


def _copy(module: ir.Module) -> ir.Module:
    return ir.Module.parse(str(module.operation.get_asm(enable_debug_info=True)))


@contextmanager
def tunable_model(
    source: Importable, shapes: Mapping[str, Shape], setup: Setup, contents: Mapping[str, np.ndarray]
) -> Iterator[TunableModel]:
    """Takes a model to the phase `graph` and finds the search spaces of its kernels, in an MLIR context of its own.

    Raises:
        TuningError: the model does not become one program.
        ModelError, PassFailure, PassError: it cannot be compiled.
    """
    compilation = Compilation(setup)
    with compiler_context(compilation.loads_all), ir.Location.unknown():
        try:
            module, state = compilation.at_graph(source, shapes, contents)
        except (NeedsContents, UnsupportedError) as error:
            raise TuningError(f"the model does not become one program, which the tuner needs: {error}") from error
        formed = _copy(module)
        route.form_kernels_pipeline(setup.target).run(formed, verify=False, state=replace(state, remarks=[]))
        model = TunableModel(compilation, module, state, formed)
        infos = kernel_infos(formed)
        for kernel in invariants.kernels(formed):
            space = _space(kernel, state)
            if space is not None and space.axes:
                model.kernels[symbol_of(kernel)] = TunableKernel(infos[symbol_of(kernel)], space)
        yield model


def _space(kernel: ir.Operation, state: CompileState) -> SearchSpace | None:
    library = library_of([kernel])
    route.lower_kernels_pipeline(state.target).run(library, verify=False, state=state.for_another())
    (copy,) = kernels_in(library.operation)
    return backend_of(state.target).search_space(copy, state.target)
