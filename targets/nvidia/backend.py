"""Code generation for NVIDIA GPUs: kernels become PTX, @main a launch plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from ...dialects import discardable
from ...lowering import invariants
from ...lowering.linalg_to_vector.spaces.space import SearchSpace
from ...lowering.target import Target
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.state import CompileState
from ...runtime.memory import aligned
from ...runtime.program import Program
from ..base import Backend, Phase
from ..names import NAMES
from .invariants import check_gpu, check_nvvm
from .kernels.contraction.space import space_of
from .launches.plan import plan_of
from .pipelines import gpu_pipeline, graph_pipeline, launches_pipeline, nvvm_pipeline
from .ptx import emit_ptx
from .target import GpuTarget

CONSTANT = "stepwell.constant."
"""Prefix of parameters that are constants of a program."""

_SCOPES = Pipeline(("ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly}",))


class CudaBackend(Backend):
    """Code generation for NVIDIA GPUs, through the gpu and NVVM dialects."""

    family = "cuda"
    placed = "gpu"
    runs_loops = False
    counts_elements = False
    call_attributes = (discardable.WORKSPACE_BYTES.name, discardable.LAUNCHES.name)

    def names(self) -> Sequence[str]:
        return NAMES[self.family]

    def target(self, name: str) -> Target:
        return GpuTarget.parse(name)

    def search_space(self, kernel: ir.Operation, name: str) -> SearchSpace | None:
        return space_of(kernel, GpuTarget.parse(name))

    def graph(self, name: str) -> Pipeline:
        machine = GpuTarget.parse(name)
        return graph_pipeline(machine.precision, machine.capability.has_wgmma)

    def with_parameters(self, name: str) -> Pipeline:
        return Pipeline(("stepwell-recognize-bands",))

    def form_kernels(self, name: str) -> Pipeline:
        return Pipeline(
            (
                # Records inputs and outputs as the runtime sees them, before bools become bytes and results
                # destinations.
                "stepwell-record-interface",
                # Concatenation, padding and slices that are views move no data, and need no kernels.
                "stepwell-form-views",
                "stepwell-form-row-views",
                # Threads hold single elements, of any width. They read masks: threads beyond the data would wait for
                # the others anyway.
                "stepwell-form-kernels{mixed-widths=true stops-at-extents=false}",
                "stepwell-merge-kernels",
                # Threads access 16 bytes at once if the address is known to be a multiple of 16.
                "stepwell-record-alignment",
                f"stepwell-name-kernels{{target={name}}}",
                # After naming, because names depend on what a kernel computes, not on its schedule.
                "stepwell-apply-tuning",
            )
        )

    def lower_kernels(self, name: str) -> Pipeline:
        return Pipeline(("stepwell-convert-to-linalg{rules=linalg-by-element}",))

    def phases(self) -> Sequence[Phase]:
        return (
            Phase("tiled", "kernels are launches, each with its schedule", launches_pipeline, invariants.check_tiled),
            Phase(
                "gpu",
                "launches are kernels of the gpu dialect, buffers planned in one arena",
                gpu_pipeline,
                check_gpu,
            ),
            Phase("nvvm", "the kernels in the NVVM dialect", nvvm_pipeline, check_nvvm),
        )

    def emit(self, module: ir.Module, name: str, state: CompileState, threads: int) -> dict[str, bytes]:
        return emit_ptx(module, GpuTarget.parse(name))

    def assembly(self, module: ir.Module, name: str, threads: int) -> dict[str, str]:
        for op in module.body.operations:
            if op.operation.name == "gpu.module":
                _add_scopes(op.operation)
        codes = emit_ptx(module, GpuTarget.parse(name))
        return {kernel: _without_debug(code.decode()) for kernel, code in codes.items()}

    def finish(self, program: Program, module: ir.Module) -> Program:
        """Adds the launch plan, and the constants that launches read as parameters; objects are named `.ptx`."""
        counts = len(program.inputs), len(program.outputs) + len(program.guards), len(program.parameters)
        launches, constants = plan_of(module, counts)
        added = {f"{CONSTANT}{number}": aligned(contents) for number, contents in enumerate(constants)}
        objects = {f"{name}.ptx": code for name, code in program.objects.items()}
        parameters = {**program.parameters, **added}
        return replace(program, parameters=parameters, objects=objects, launches=launches, is_short=False)


def _add_scopes(gpu_module: ir.Operation) -> None:
    """Runs the pass on the contents of a GPU module; the pass itself only takes top-level modules."""
    block = gpu_module.regions[0].blocks[0]
    plain = ir.Module.create()
    with ir.InsertionPoint(plain.body):
        for op in block.operations:
            op.operation.clone()
    _SCOPES.run(plain, verify=False)
    for op in [op.operation for op in block.operations]:
        op.erase()
    with ir.InsertionPoint(block):
        for op in plain.body.operations:
            op.operation.clone()


def _without_debug(code: str) -> str:
    """Removes the debug mode from the PTX target."""
    return re.sub(r"^(\.target \w+), debug$", r"\1", code, flags=re.MULTILINE)
