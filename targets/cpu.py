"""Code generation for CPUs, shared by all architectures."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from mlir import ir

from ..dialects import discardable
from ..lowering import invariants
from ..lowering.linalg_to_vector.spaces.space import SearchSpace
from ..lowering.linalg_to_vector.spaces.space_of import space_of
from ..lowering.llvm_to_object.codegen import emit_assembly, emit_objects
from ..lowering.llvm_to_object.emit_objects import EmitObjectsPass
from ..lowering.target import Target
from ..lowering.vector_to_llvm.pipelines import llvm_pipeline, memref_pipeline
from ..passes.graph.pipelines import graph_pipeline
from ..passes.infra.pipeline import Pipeline
from ..passes.infra.state import CompileState
from ..runtime import processor
from .base import Backend, Phase

_SCOPES = Pipeline(("ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}",))


class CpuBackend(Backend):
    """Code generation for CPUs, through vector code and LLVM."""

    placed = "memref"
    call_attributes = (discardable.WORKSPACE_BYTES.name, discardable.PHASES.name)
    compiles_ahead = True

    def target(self, name: str) -> Target:
        return Target.parse(name)

    def search_space(self, kernel: ir.Operation, name: str) -> SearchSpace | None:
        return space_of(kernel, self.target(name))

    def graph(self, name: str) -> Pipeline:
        return graph_pipeline(self.target(name).precision)

    def form_kernels(self, name: str) -> Pipeline:
        return Pipeline(
            (
                # If both dimensions of a batch of sequences vary, their rows are stored one after the other.
                "stepwell-pack-rows",
                # Before the interface is recorded, which names the inputs that are read where the caller has them.
                "stepwell-append-in-place",
                # Records inputs and outputs as the runtime sees them, before bools become bytes and results
                # destinations.
                "stepwell-record-interface",
                # Before kernels are formed, so that each kernel computes one image.
                "stepwell-split-batches",
                # Concatenation, padding and slices that are views move no data, and need no kernels.
                "stepwell-form-views",
                "stepwell-form-row-views",
                # Kernels are merged before lowering: equal ones are lowered, scheduled and compiled once.
                "stepwell-form-kernels",
                "stepwell-merge-kernels",
                # No tile suits all sizes of a range.
                f"stepwell-version-kernels{{target={name}}}",
                f"stepwell-name-kernels{{target={name}}}",
                # After naming, because names depend on what a kernel computes, not on its schedule.
                "stepwell-apply-tuning",
            )
        )

    def lower_kernels(self, name: str) -> Pipeline:
        return Pipeline(("stepwell-convert-to-linalg",))

    def phases(self) -> Sequence[Phase]:
        return (
            Phase("tiled", "kernels tiled and fused by their schedules", _tiled, invariants.check_tiled),
            Phase("vector", "kernels as vector code on tensors", _vector, invariants.check_vector),
            Phase("memref", "buffers planned in one arena", memref_pipeline, invariants.check_memref),
            Phase("llvm", "the LLVM dialect", llvm_pipeline, invariants.check_llvm),
        )

    def emit(self, module: ir.Module, name: str, state: CompileState, threads: int) -> dict[str, bytes]:
        if state.is_recorded:  # as a pass, so that a reproducer can repeat it
            Pipeline((EmitObjectsPass(name),)).run(module, state=state)
        return emit_objects(module, self.target(name), threads)

    def assembly(self, module: ir.Module, name: str, threads: int) -> dict[str, str]:
        _SCOPES.run(module, verify=False)
        return emit_assembly(module, self.target(name), threads)

    def memory_bytes(self) -> int | None:
        return processor.memory_bytes()


@functools.cache
def _tiled(name: str) -> Pipeline:
    return Pipeline((f"stepwell-apply-schedules{{target={name}}}",))


@functools.cache
def _vector(name: str) -> Pipeline:
    machine = Target.parse(name)
    has_scalef = machine.architecture == "x86_64" and machine.vector_bytes == 64
    return Pipeline(
        (
            "stepwell-vectorize",
            "stepwell-round-without-division",
            # Math ops are vectors at this point, so that a polynomial is vector code.
            f"stepwell-approximate-math{{has-scalef={str(has_scalef).lower()}}}",
        )
    )
