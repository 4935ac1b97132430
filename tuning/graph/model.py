"""A model whose graph is tuned: it is compiled anew from the phase `import` with any decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir import ir

from ...driver.compile.compilation import Compilation
from ...driver.context import compiler_context
from ...driver.setup import Setup
from ...driver.sources.source import Importable
from ...frontend.errors import NeedsContents, UnsupportedError
from ...passes.infra.decisions import machine_key
from ...passes.infra.tuning import TunedDecision, Tuning
from ...runtime.program import KernelInfo, Program, Shape
from ...targets.registry import is_cpu, target_of
from ..database import GRAPH
from ..errors import TuningError
from ..model import RemoteModel, TunableKernel
from .space import GraphSpace

Decided = Mapping[str, str]
"""Values that differ from the default ones, by the names of sites."""


@dataclass(frozen=True)
class GraphModel:
    """A model that can be compiled with any decisions.

    Attributes:
        source: the model.
        shapes: the shape of each input.
        setup: the target, the options and the cache, which keeps the code of kernels.
        contents: contents of some inputs.
        default: the program with default decisions.
        space: the decisions that it may have.
        name: identifies the graph and the machine.
    """

    source: Importable
    shapes: Mapping[str, Shape]
    setup: Setup
    contents: Mapping[str, np.ndarray]
    default: Program
    space: GraphSpace
    name: str

    @property
    def as_kernel(self) -> RemoteModel:
        """The whole graph as one kernel, for a search."""
        rows = self.default.kernels
        flops, moved = (sum(getattr(row, field) * row.calls for row in rows) for field in ("flops", "bytes"))
        nodes = tuple(name for item in self.space.sites.values() for name in item.nodes)
        info = KernelInfo(self.name, GRAPH, nodes, flops=flops, bytes=moved)
        machine = target_of(self.setup.target).to_json()
        return RemoteModel(machine, {self.name: TunableKernel(info, self.space)})

    def program(self, decided: Decided) -> Program:
        """Compiles the model with decisions, in an MLIR context of its own."""
        machine = machine_key(target_of(self.setup.target).machine)
        decisions = [TunedDecision(site, value, machine, 1.0, 1.0, 1.0, 1) for site, value in decided.items()]
        before = self.setup.options.tuning
        table = before if isinstance(before, Tuning) else Tuning()
        setup = self.setup.changed(tuning=replace(table, decisions=(*table.decisions, *decisions)))
        compilation = Compilation(setup)
        with compiler_context(compilation.loads_all), ir.Location.unknown():
            module, state = compilation.at_graph(self.source, self.shapes, self.contents)
            return compilation.from_graph(module, state)


def graph_model(
    source: Importable,
    shapes: Mapping[str, Shape],
    setup: Setup,
    contents: Mapping[str, np.ndarray],
    *,
    may_round: bool = False,
) -> GraphModel:
    """Compiles a model with default decisions, and finds the sites of its graph.

    Args:
        source: the model.
        shapes: the shape of each input.
        setup: the target, the options and the cache.
        contents: contents of some inputs.
        may_round: whether products may have a shorter precision.

    Raises:
        TuningError: the target is no CPU, or the model does not become one program.
        ModelError, PassFailure, PassError: it cannot be compiled.
    """
    if not is_cpu(setup.target):
        raise TuningError(f"target {setup.target}: only graphs for CPUs are tuned so far; leave --target out")
    compilation = Compilation(setup)
    with compiler_context(compilation.loads_all), ir.Location.unknown():
        sites: dict[tuple[str, tuple[str, ...]], Any] = {}
        try:
            module, state = compilation.at_graph(source, shapes, contents, sites=sites)
        except (NeedsContents, UnsupportedError) as error:
            raise TuningError(f"the model does not become one program, which the tuner needs: {error}") from error
        default = compilation.from_graph(module, state)
    machine = target_of(setup.target).machine
    space = GraphSpace.of(sites.values(), machine, may_round=may_round)
    # Kernels with their places in the program identify the graph, whatever its file is called.
    described = sorted(f"{row.name} {row.calls}" for row in default.kernels)
    digest = hashlib.sha256("\n".join([*described, *space.sites]).encode()).hexdigest()[:20]
    return GraphModel(source, shapes, setup, contents, default, space, f"{GRAPH}_{machine_key(machine)}_{digest}")
