"""The named phases that a module walks down, one pipeline and one invariant each.

`run(module, stop="tiled")` takes a freshly imported module to the phase `tiled`; a module that was dumped there
goes on with `run(module, start="tiled")`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir import ir

from ..lowering import invariants
from ..lowering.check_phase import CheckPhasePass
from ..lowering.linalg_to_gpu.pipelines import gpu_pipeline, launches_pipeline, nvvm_pipeline
from ..lowering.target import Target
from ..lowering.vector_to_llvm.pipelines import llvm_pipeline, memref_pipeline
from ..passes.failure import in_phase
from ..passes.graph.pipelines import gpu_graph_pipeline, graph_pipeline
from ..passes.pipeline import Pipeline
from ..passes.recorder import is_recording
from ..passes.state import CompileState
from ..runtime.errors import OptionError

if TYPE_CHECKING:
    from ..passes.instrumentation import Instrumentation


@dataclass(frozen=True)
class Phase:
    """A level of the IR that has a name.

    Attributes:
        name: as in `--compile-to=NAME`.
        summary: what the IR is, in a line.
        pipeline: how to get here from the phase before, for a target by its name.
        check: what must hold here; raises PassError.
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
    # What @init computes are parameters from here on, whose contents decide what follows.
    with_parameters = Pipeline(("stepwell-evaluate-init", "stepwell-scale-denormal-weights"))
    if machine.capability is not None:
        pipeline = gpu_graph_pipeline(machine.precision, machine.capability.has_wgmma)
        return pipeline + with_parameters + Pipeline(("stepwell-recognize-bands",))
    return graph_pipeline(machine.vector_bytes, machine.precision) + with_parameters


@functools.cache
def form_kernels_pipeline(target: str = "cpu") -> Pipeline:
    """The first half of the way to the phase `kernels`: kernels of stepwell ops still, each once."""
    is_gpu = Target.parse(target).is_gpu
    return Pipeline(
        (
            # Without parameters, nothing has evaluated @init.
            "stepwell-erase-init",
            # Where a batch of sequences varies in both, their rows are laid one after the other.
            *(() if is_gpu else ("stepwell-pack-rows",)),
            # The runtime's view of inputs and outputs, before bools become bytes and results destinations.
            "stepwell-record-interface",
            # Before kernels are formed, as they are of one image then.
            *(() if is_gpu else ("stepwell-split-batches",)),
            # Concatenation, padding and slices that are views move nothing, and need no kernels.
            "stepwell-form-views",
            "stepwell-form-row-views",
            # Merging comes before lowering: what is equal is lowered, scheduled and compiled once.
            f"stepwell-form-kernels{{on-gpu={str(is_gpu).lower()}}}",
            "stepwell-merge-kernels",
            # Where sizes vary, no tile suits all of them.
            *(() if is_gpu else (f"stepwell-version-kernels{{target={target}}}",)),
            # Threads access 16 bytes at once, where these are known to lie at a multiple of 16.
            *(("stepwell-record-alignment",) if is_gpu else ()),
            f"stepwell-name-kernels{{target={target}}}",
        )
    )


@functools.cache
def lower_kernels_pipeline(target: str) -> Pipeline:
    """The second half of the way to the phase `kernels`: from here on there is code for one target."""
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
            # The math ops are vectors by now, so that a polynomial is vector code.
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
"""The phases on the way to a CPU."""

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
"""The phases on the way to a GPU."""

NAMES: tuple[str, ...] = tuple(dict.fromkeys(phase.name for phase in (*PHASES, *GPU_PHASES)))
"""What a phase of any target may be called; `names` are those of one target, in order."""


def phases_of(target: str) -> tuple[Phase, ...]:
    """The phases on the way to a target by its name.

    Raises:
        TargetError: there is no such target.
    """
    return GPU_PHASES if Target.parse(target).is_gpu else PHASES


def names(target: str) -> tuple[str, ...]:
    """What the phases on the way to a target are called, in order."""
    return tuple(phase.name for phase in phases_of(target))


def placed(target: str) -> str:
    """The phase in which everything has its place in memory."""
    return "gpu" if Target.parse(target).is_gpu else "memref"


def last(target: str) -> str:
    """The phase that code is made from."""
    return names(target)[-1]


def between(start: str, stop: str, target: str = "cpu") -> Sequence[Phase]:
    """The phases after `start`, up to and with `stop`, on the way to a target.

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
) -> None:
    """Takes a module from one phase to another, in place.

    Args:
        module: IR that is in phase `start`.
        target: the name of the machine to generate code for, as `Target.parse` takes it.
        start: the phase that the module is in.
        stop: the phase to reach; None for the last one.
        instrumentation: told before and after every pass.
        reached: called with the name of every phase on the way and the module as it is there.
        without: the names of passes to leave out.
        state: what belongs to the module; None for a module alone.

    Raises:
        PassFailure: a pass failed.
        PassError: a phase was left without what must hold there.
    """
    for phase in between(start, stop or last(target), target):
        with in_phase(phase.name):
            phase.pipeline(target).without(without).run(module, instrumentation, verify=False, state=state)
            check(phase, module)
        reached(phase.name, module)


def check(phase: Phase, module: ir.Module) -> None:
    """Sees that a module has what must hold in a phase.

    Raises:
        PassError, PassFailure: it has not.
    """
    if is_recording():  # as a pass, so that it can be shown again
        Pipeline((CheckPhasePass(phase.name),)).run(module)
    else:
        phase.check(module)


def phase(name: str) -> Phase:
    """A phase by its name."""
    return next(phase for phase in (*PHASES, *GPU_PHASES) if phase.name == name)
