"""The named phases of a compile, with a pipeline and an invariant each.

`run(module, stop="tiled")` takes a freshly imported module to the phase `tiled`; a module that was dumped there
continues with `run(module, start="tiled")`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir import ir

from ..lowering import invariants
from ..lowering.check_phase import CheckPhasePass
from ..lowering.target import Target
from ..lowering.vector_to_llvm.pipelines import llvm_pipeline, memref_pipeline
from ..passes.graph.pipelines import gpu_graph_pipeline, graph_pipeline
from ..passes.graph.specialize_shapes import SpecializeShapesPass
from ..passes.infra.failure import in_phase
from ..passes.infra.pipeline import Pipeline
from ..passes.infra.recorder import is_recording
from ..passes.infra.state import CompileState
from ..runtime.program import Shape
from ..support.errors import OptionError
from ..targets.nvidia.pipelines import gpu_pipeline, launches_pipeline, nvvm_pipeline

if TYPE_CHECKING:
    from ..passes.infra.instrumentation import Instrumentation
    from .options import At


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


def _import(target: str) -> Pipeline:
    return Pipeline()


@functools.cache
def _graph(target: str) -> Pipeline:
    machine = Target.parse(target)
    # The results of @init are parameters from here on, whose contents later passes read.
    with_parameters = Pipeline(("stepwell-evaluate-init", "stepwell-scale-denormal-weights"))
    if machine.capability is not None:
        pipeline = gpu_graph_pipeline(machine.precision, machine.capability.has_wgmma)
        return pipeline + with_parameters + Pipeline(("stepwell-recognize-bands",))
    return graph_pipeline(machine.vector_bytes, machine.precision) + with_parameters


@functools.cache
def form_kernels_pipeline(target: str = "cpu") -> Pipeline:
    """The first half of the pipeline to the phase `kernels`: distinct kernels that still consist of stepwell ops."""
    is_gpu = Target.parse(target).is_gpu
    return Pipeline(
        (
            # Without parameters, nothing has evaluated @init.
            "stepwell-erase-init",
            # If both dimensions of a batch of sequences vary, their rows are stored one after the other.
            *(() if is_gpu else ("stepwell-pack-rows",)),
            # Records inputs and outputs as the runtime sees them, before bools become bytes and results destinations.
            "stepwell-record-interface",
            # Before kernels are formed, so that each is of one image.
            *(() if is_gpu else ("stepwell-split-batches",)),
            # Concatenation, padding and slices that are views move no data, and need no kernels.
            "stepwell-form-views",
            "stepwell-form-row-views",
            # Kernels are merged before lowering: equal ones are lowered, scheduled and compiled once.
            f"stepwell-form-kernels{{on-gpu={str(is_gpu).lower()}}}",
            "stepwell-merge-kernels",
            # No tile suits all sizes of a range.
            *(() if is_gpu else (f"stepwell-version-kernels{{target={target}}}",)),
            # Threads access 16 bytes at once if the address is known to be a multiple of 16.
            *(("stepwell-record-alignment",) if is_gpu else ()),
            f"stepwell-name-kernels{{target={target}}}",
        )
    )


@functools.cache
def lower_kernels_pipeline(target: str) -> Pipeline:
    """The second half of the pipeline to the phase `kernels`: from here on code is for one target."""
    return Pipeline((f"stepwell-convert-to-linalg{{target={target}}}",))


@functools.cache
def _kernels(target: str) -> Pipeline:
    return form_kernels_pipeline(target) + lower_kernels_pipeline(target)


@functools.cache
def _tiled(target: str) -> Pipeline:
    return Pipeline((f"stepwell-apply-schedules{{target={target}}}",))


@functools.cache
def _vector(target: str) -> Pipeline:
    machine = Target.parse(target)
    has_scalef = machine.architecture == "x86_64" and machine.vector_bytes == 64
    return Pipeline(
        (
            "stepwell-vectorize",
            # Math ops are vectors at this point, so that a polynomial is vector code.
            f"stepwell-approximate-math{{has-scalef={str(has_scalef).lower()}}}",
        )
    )


PHASES: tuple[Phase, ...] = (
    Phase("import", "stepwell ops, one per op of the model", _import, invariants.check_import),
    Phase("graph", "stepwell ops, shapes known, canonical, fused, layouts chosen", _graph, invariants.check_graph),
    Phase("kernels", "@main is a list of calls of linalg kernels", _kernels, invariants.check_kernels),
    Phase("tiled", "kernels tiled and fused by their schedules", _tiled, invariants.check_tiled),
    Phase("vector", "kernels as vector code on tensors", _vector, invariants.check_vector),
    Phase("memref", "buffers planned in one arena", memref_pipeline, invariants.check_memref),
    Phase("llvm", "the LLVM dialect", llvm_pipeline, invariants.check_llvm),
)
"""The phases of a compile for a CPU."""

GPU_PHASES: tuple[Phase, ...] = (
    *PHASES[:3],
    Phase("tiled", "kernels are launches, each with its schedule", launches_pipeline, invariants.check_tiled),
    Phase(
        "gpu",
        "launches are kernels of the gpu dialect, buffers planned in one arena",
        gpu_pipeline,
        invariants.check_gpu,
    ),
    Phase("nvvm", "the kernels in the NVVM dialect", nvvm_pipeline, invariants.check_nvvm),
)
"""The phases of a compile for a GPU."""

NAMES: tuple[str, ...] = tuple(dict.fromkeys(phase.name for phase in (*PHASES, *GPU_PHASES)))
"""The names of all phases of any target; `names` returns those of one target, in order."""


def phases_of(target: str) -> tuple[Phase, ...]:
    """Returns the phases of a compile for a target by its name.

    Raises:
        TargetError: the target is unknown.
    """
    return GPU_PHASES if Target.parse(target).is_gpu else PHASES


def names(target: str) -> tuple[str, ...]:
    """Returns the names of the phases for a target, in order."""
    return tuple(phase.name for phase in phases_of(target))


def placed(target: str) -> str:
    """Returns the phase in which all buffers have their offsets in memory."""
    return "gpu" if Target.parse(target).is_gpu else "memref"


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
    target: str = "cpu",
    start: str = "import",
    stop: str | None = None,
    instrumentation: Sequence[Instrumentation] = (),
    reached: Callable[[str, ir.Module], None] = lambda name, module: None,
    without: Collection[str] = (),
    state: CompileState | None = None,
    added: Sequence[At] = (),
    shapes: Sequence[Shape] | None = None,
) -> None:
    """Takes a module from one phase to another, in place.

    Args:
        module: IR in the phase `start`.
        target: the name of the target, as `Target.parse` takes it.
        start: the phase that the module is in.
        stop: the phase to reach; None for the last one.
        instrumentation: called before and after every pass.
        reached: called with the name and the module of every phase that is reached.
        without: the names of passes to leave out.
        state: the module's parameters and other state; None for a module alone.
        added: passes of the caller, each run after the passes of its phase.
        shapes: the shapes of the inputs of @main, to which the phase `graph` binds them; None for those of the module.

    Raises:
        PassFailure: a pass failed.
        PassError: the invariants of a phase do not hold.
    """
    for phase in between(start, stop or last(target), target):
        with in_phase(phase.name):
            pipeline = steps(phase, target, without, added, shapes)
            pipeline.run(module, instrumentation, verify=False, state=state)
            check(phase, module)
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


def steps(
    phase: Phase,
    target: str,
    without: Collection[str] = (),
    added: Sequence[At] = (),
    shapes: Sequence[Shape] | None = None,
) -> Pipeline:
    """Returns the pipeline from the previous phase to a phase; see `run` for the arguments."""
    bind = Pipeline((SpecializeShapesPass.of(shapes),) if shapes is not None and phase.name == "graph" else ())
    of_caller = Pipeline(tuple(item.step for item in added if item.phase == phase.name))
    return bind + phase.pipeline(target).without(without) + of_caller


def check(phase: Phase, module: ir.Module) -> None:
    """Checks that the invariants of a phase hold for a module.

    Raises:
        PassError, PassFailure: they do not.
    """
    if is_recording():  # as a pass, so that a reproducer can repeat it
        Pipeline((CheckPhasePass(phase.name),)).run(module)
    else:
        phase.check(module)


def phase(name: str, target: str = "cpu") -> Phase:
    """Returns a phase of a compile for a target by its name."""
    return next(phase for phase in phases_of(target) if phase.name == name)
