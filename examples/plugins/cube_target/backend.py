"""Code generation: Stepwell's route for this machine's CPU, with a phase in which kernels become streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from mlir import ir
from stepwell.dialects.symbols import symbol_of
from stepwell.lowering import invariants
from stepwell.lowering.target import Target
from stepwell.lowering.target_names import TargetError, split_precision
from stepwell.passes.graph.convolutions.choose_winograd import ChooseWinogradPass
from stepwell.passes.graph.packing.pack_rows import PackRowsPass
from stepwell.passes.graph.packing.pack_weights import PackWeightsPass
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState
from stepwell.passes.kernel.form_kernels import FormKernelsPass
from stepwell.targets.base import Backend, Phase
from stepwell.targets.cpu import CpuBackend
from stepwell.targets.name_kernels import NameKernelsPass
from stepwell.targets.registry import backend_of

from .assembly import assemble, disassemble
from .encoding import encode
from .isa import CubeProgram
from .machine import V1
from .passes import CODE, REASON, CubeEmitStreamsPass, CubePackWeightsPass
from .timeline import timeline

HOST = "cpu+f16"
"""The target of what the unit does not compute. Products of float32 are f16 on both: the unit has no other floats."""
DEVICE = f"cube:{V1.name}"


@dataclass(frozen=True)
class CubeTarget(Target):
    """This machine's CPU with a cube unit beside it."""

    device: ClassVar[str] = DEVICE


class CubeBackend(Backend):
    """Code generation for this machine's CPU with a cube unit beside it."""

    family = "cube"
    placed = CpuBackend.placed
    call_attributes = CpuBackend.call_attributes

    def names(self) -> Sequence[str]:
        """Returns the only version."""
        return (DEVICE,)

    def target(self, name: str) -> CubeTarget:
        """Returns this machine with its unit; a precision may only be f16, which is the default."""
        machine, precision = split_precision(name)
        if machine != DEVICE:
            raise TargetError(f"unknown target '{machine}'; known is {DEVICE}")
        if precision not in ("f32", "f16"):
            raise TargetError(f"the cube unit multiplies f16 and bytes, not {precision}")
        host = Target.parse(HOST)
        return CubeTarget(**{field.name: getattr(host, field.name) for field in fields(Target)})

    def graph(self, name: str) -> Pipeline:
        """Returns the host's pipeline in f16, with the unit's weights packed before those of the host."""
        passes = []
        for element in backend_of(HOST).graph(HOST).without((ChooseWinogradPass.name,)).elements:
            if isinstance(element, PackWeightsPass):
                # The unit multiplies f16, so that rows stay f16 beside it, too.
                passes += [CubePackWeightsPass(), replace(element, widen_rows=False)]
            else:
                passes.append(element)
        return Pipeline(passes)

    def form_kernels(self, name: str) -> Pipeline:
        """Returns the host's pipeline, with kernels that suit the unit.

        Products have kernels of their own, as the unit computes nothing else. If sizes vary, all kernels compute
        everything up to the largest sizes, as the streams do.
        """
        passes = []
        for item in backend_of(HOST).form_kernels(HOST).without((PackRowsPass.name,)).elements:
            if isinstance(item, FormKernelsPass):
                item = replace(item, products_alone=True, stops_at_extents=False)
            elif isinstance(item, NameKernelsPass):  # the names depend on the unit too
                item = replace(item, target=name)
            passes.append(item)
        return Pipeline(passes)

    def lower_kernels(self, name: str) -> Pipeline:
        """Returns the host's pipeline."""
        return backend_of(HOST).lower_kernels(HOST)

    def phases(self) -> Sequence[Phase]:
        """Returns the phase `cube`, then those of the host."""
        cube = Phase("cube", "kernels of the unit are instruction streams", _streams, invariants.check_kernels)
        return (cube, *(replace(phase, pipeline=_on_host(phase)) for phase in backend_of(HOST).phases()))

    def emit(self, module: ir.Module, name: str, state: CompileState, threads: int) -> dict[str, bytes]:
        """Returns the objects of the host's functions, and the streams by the kernels' names."""
        streams = {symbol: encode(program) for symbol, program in _programs(module)}
        return {**backend_of(HOST).emit(module, HOST, state, threads), **streams}

    def assembly(self, module: ir.Module, name: str, threads: int) -> dict[str, str]:
        """Returns the host's machine code, and the streams as text."""
        streams = {symbol: "\n".join(disassemble(program)) for symbol, program in _programs(module)}
        return {**backend_of(HOST).assembly(module, HOST, threads), **streams}

    def kernel_facts(self, kernel: ir.Operation) -> Mapping[str, Any]:
        """Returns the cycles of a kernel that the unit computes; of another contraction, why it is on the host."""
        code, reason = CODE.read(kernel), REASON.read(kernel)
        if code is None:
            return {} if reason is None else {"unit": "host", "because": reason}
        cycles = timeline(assemble(code), V1)
        return {"unit": "cube", **vars(cycles), "utilisation": round(cycles.utilisation, 3)}


def _streams(name: str) -> Pipeline:
    return Pipeline((CubeEmitStreamsPass(name.partition("+")[0].removeprefix("cube:")),))


def _on_host(phase: Phase) -> Callable[[str], Pipeline]:
    return lambda name: phase.pipeline(HOST)


def _programs(module: ir.Module) -> Iterator[tuple[str, CubeProgram]]:
    """Returns the streams of a module by the kernels' names."""
    for op in module.body.operations:
        if CODE.is_on(op):
            yield symbol_of(op), assemble(CODE.required(op))
