"""The phases of a compile for each target, by name; each has a pipeline and an invariant.

`run(module, state, stop="tiled")` takes a freshly imported module to the phase `tiled`; a module that was dumped there
continues with `run(module, state, start="tiled")`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlir import ir

from ..dialects import discardable
from ..lowering.invariants import EARLY_CHECKS
from ..passes.graph.shapes.specialize_shapes import SpecializeShapesPass
from ..passes.infra.pipeline import Pipeline
from ..passes.infra.state import CompileState
from ..passes.ranges.pipelines import ranges_pipeline
from ..support.errors import OptionError
from ..targets.base import Phase
from ..targets.check_phase import CheckPhasePass
from ..targets.registry import backend_of

if TYPE_CHECKING:
    from .options import At


IMPORT = "import"
"""The phase of a freshly imported module."""


def form_kernels_pipeline(target: str = "cpu") -> Pipeline:
    """The first half of the pipeline to the phase `kernels`: distinct kernels that still consist of stepwell ops."""
    # Without parameters, nothing has evaluated @init.
    return Pipeline(("stepwell-erase-init",)) + backend_of(target).form_kernels(target)


def lower_kernels_pipeline(target: str) -> Pipeline:
    """The second half of the pipeline to the phase `kernels`: from here on code is for one target."""
    return backend_of(target).lower_kernels(target)


def _import(target: str) -> Pipeline:
    return Pipeline()


@functools.cache
def _graph(target: str) -> Pipeline:
    backend = backend_of(target)
    # From here on, the results of @init are parameters, whose contents later passes read.
    evaluated = Pipeline(("stepwell-evaluate-init", "stepwell-scale-denormal-weights"))
    return backend.graph(target) + evaluated + backend.with_parameters(target)


@functools.cache
def _kernels(target: str) -> Pipeline:
    return form_kernels_pipeline(target) + lower_kernels_pipeline(target)


_COMMON: tuple[Phase, ...] = (
    Phase(IMPORT, "stepwell ops, one per op of the model", _import, EARLY_CHECKS[IMPORT]),
    Phase("graph", "stepwell ops, shapes known, canonical, fused, layouts chosen", _graph, EARLY_CHECKS["graph"]),
    Phase("kernels", "@main is a list of calls of linalg kernels", _kernels, EARLY_CHECKS["kernels"]),
)


def phases_of(target: str) -> tuple[Phase, ...]:
    """Returns the phases of a compile for a target by its name.

    Raises:
        TargetError: the target is unknown.
    """
    return (*_COMMON, *backend_of(target).phases())


def names(target: str) -> tuple[str, ...]:
    """Returns the names of the phases for a target, in order."""
    return tuple(phase.name for phase in phases_of(target))


def placed(target: str) -> str:
    """Returns the phase in which all buffers have their offsets in memory."""
    return backend_of(target).placed


def last(target: str) -> str:
    """Returns the phase that code is generated from."""
    return names(target)[-1]


def between(start: str, stop: str, target: str = "cpu") -> Sequence[Phase]:
    """Returns the phases after `start` up to and including `stop`, for a target.

    Raises:
        OptionError: there is no such phase, or `stop` comes before `start`.
    """
    known = names(target)
    for name in (start, stop):
        if name not in known:
            raise OptionError(f"there is no phase '{name}'; the phases are {', '.join(known)}")
    first, end = known.index(start) + 1, known.index(stop) + 1
    if end < first:
        raise OptionError(f"phase '{stop}' comes before '{start}'")
    return phases_of(target)[first:end]


def run(
    module: ir.Module,
    state: CompileState,
    start: str = "import",
    stop: str | None = None,
    reached: Callable[[str, ir.Module], None] = lambda name, module: None,
) -> None:
    """Takes a module from one phase to another, in place.

    Args:
        module: IR in the phase `start`.
        state: the state of the compile.
        start: the phase that the module is in.
        stop: the phase to reach; None for the last one.
        reached: called with the name and the module of every phase that is reached.

    Raises:
        PassFailure: a pass failed.
        PassError: the invariants of a phase do not hold.
    """
    for phase in between(start, stop or last(state.target), state.target):
        with state.in_phase(phase.name):
            is_ranged = discardable.RANGES.is_on(module.operation) and not discardable.TABLE.is_on(module.operation)
            steps(phase, state, is_ranged).run(module, state.instrumentation, verify=False, state=state)
            check(phase, module, state)
        reached(phase.name, module)


def check_added(added: Sequence[At], target: str) -> None:
    """Checks that passes of the caller are at phases that a compile for a target goes through.

    Raises:
        OptionError: there is no such phase, or the phase has no passes.
    """
    allowed = names(target)[1:]
    for item in added:
        if item.phase not in allowed:
            raise OptionError(f"passes: there is no phase '{item.phase}' with passes; they are {', '.join(allowed)}")


def steps(phase: Phase, state: CompileState, is_ranged: bool = False) -> Pipeline:
    """Returns the pipeline from the previous phase to a phase; `is_ranged` is for modules with sizes in ranges."""
    bind, without = Pipeline(), ()
    if phase.name == "graph":
        without = state.without
        bind += Pipeline(() if state.shapes is None else (SpecializeShapesPass.of(state.shapes),))
        bind += ranges_pipeline(backend_of(state.target).memory_bytes() or 0) if is_ranged else Pipeline()
    of_caller = Pipeline(tuple(item.step for item in state.added if item.phase == phase.name))
    return bind + phase.pipeline(state.target).without(without) + of_caller


def check(phase: Phase, module: ir.Module, state: CompileState) -> None:
    """Checks that the invariants of a phase hold for a module.

    Raises:
        PassError, PassFailure: they do not.
    """
    if state.is_recorded:  # as a pass, so that a reproducer can repeat it
        Pipeline((CheckPhasePass(phase.name, state.target),)).run(module, state=state)
    else:
        phase.check(module)


def phase(name: str, target: str = "cpu") -> Phase:
    """Returns a phase of a compile for a target by its name."""
    return next(phase for phase in phases_of(target) if phase.name == name)
