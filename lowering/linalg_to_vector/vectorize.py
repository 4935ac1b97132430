"""`stepwell-vectorize`: converts the linalg ops of tiled kernels to vector code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mlir import ir
from mlir.dialects import linalg

from ...dialects import discardable
from ...machines.caches import stream_bytes
from ...machines.machine import Machine
from ...passes.infra.base import Pass, PassError, register
from ...passes.infra.state import CompileState
from ...passes.infra.upstream import PreparedPipelines
from ...passes.ir.functions import class_of, kernels_in
from ...passes.ir.named_ops import ops_named
from ...passes.ir.rewriting import find_ops, walk
from ..streams import has_bytes
from .clamp_tiles import clamp_tiles
from .convert_blocks import convert_blocks, converts_blocks
from .loops.emit import vectorize_loops
from .loops.widths import Widths
from .register_tiles import RegisterTiler
from .schedules.attention import REGISTER_TILES, role_of
from .schedules.base import given_parameters
from .sink_fills import sink_fills
from .winograd.transforms import vectorize_transforms

_PACKING_UNROLL = 4
"""Vectors per iteration of a loop that packs a panel."""

_REGISTER_TILED = frozenset({"contraction", "convolution", "depthwise", "winograd"})


@register
@dataclass(frozen=True)
class VectorizePass(Pass):
    """Convert the linalg ops of every kernel to vector ops, still on tensors.

    Contractions and convolutions are tiled to the registers' size and unrolled. Everything else becomes loops over
    vectors; several linalg ops share a loop if they index their operands in the same way.

    ```mlir
    %1 = linalg.generic {...} ins(%0 : tensor<100xf32>) outs(%out : tensor<100xf32>) {...}
    // -->
    %1 = scf.for %i = %c0 to %c64 step %c64 iter_args(%t = %out) -> (tensor<100xf32>) {
      %2 = vector.transfer_read %0[%i], %zero {in_bounds = [true]} : tensor<100xf32>, vector<64xf32>
    ```

    Preconditions: `stepwell-apply-schedules` has run; the attribute `stepwell.schedule` holds `vector_bytes`.
    """

    name = "stepwell-vectorize"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Vectorises every kernel of a module."""
        for kernel in kernels_in(op):
            _vectorize(kernel, state.pipelines, state.machine)


def _vectorize(kernel: ir.Operation, pipelines: PreparedPipelines, machine: Machine) -> None:
    parameters = given_parameters(kernel)
    if "vector_bytes" not in parameters:
        name = ir.StringAttr(kernel.attributes["sym_name"]).value
        raise PassError(f"kernel @{name} has no schedule with 'vector_bytes'; apply schedules first", kernel.location)
    kind = class_of(kernel)
    if kind == "winograd":
        vectorize_transforms(kernel, parameters["vector_bytes"] // 4)
    if kind in _REGISTER_TILED:
        lanes, method = parameters["vector_bytes"] // 4, parameters.get("bytes_method", "bytes")
        _tile_registers(kernel, RegisterTiler(machine, lanes, parameters.get("ahead", 1), method), pipelines)
        vectorize_loops(kernel, Widths(machine, parameters["vector_bytes"], _PACKING_UNROLL))
    elif kind == "attention":
        _vectorize_attention(kernel, parameters, pipelines, machine)
    else:
        overlaps = len(ops_named(kernel, "affine.min")) > 0
        if overlaps:
            clamp_tiles(kernel, pipelines)
        pipelines.run("func.func(linalg-generalize-named-ops)", kernel)
        widths = Widths(machine, parameters["vector_bytes"], parameters.get("unroll", 4))
        # If tiles overlap, two threads may compute the same results: one could overwrite what the other still reads. A
        # result too large for the caches is best written once, while its rows stay in the cache.
        is_streamed = bool(parameters.get("rows")) and _has_stream(kernel, machine)
        vectorize_loops(kernel, widths, may_overwrite=not overlaps and not is_streamed)
    pipelines.run("func.func(canonicalize,cse,loop-invariant-code-motion)", kernel)


def _has_stream(kernel: ir.Operation, machine: Machine) -> bool:
    """Returns whether a result leaves the caches before another kernel reads it."""
    results = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).results
    return any(has_bytes(kind, stream_bytes(machine)) for kind in results)


def _vectorize_attention(
    kernel: ir.Operation, parameters: dict[str, Any], pipelines: PreparedPipelines, machine: Machine
) -> None:
    """Converts contractions and the ops fused with them to register tiles, and all other ops to vector loops."""
    clamp_tiles(kernel, pipelines, fills_sink=True)
    pipelines.run("func.func(canonicalize)", kernel)
    sink_fills(kernel)
    for roles in REGISTER_TILES:
        ops = [op.opview for op in walk(kernel) if role_of(op) in roles]
        RegisterTiler(machine, parameters["vector_bytes"] // 4).run(ops)
    pipelines.run("func.func(linalg-generalize-named-ops)", kernel)
    vectorize_loops(kernel, Widths(machine, parameters["vector_bytes"], parameters.get("unroll", 4)))


def _tile_registers(kernel: ir.Operation, tiler: RegisterTiler, pipelines: PreparedPipelines) -> None:
    """Converts everything but the packing of panels to register tiles."""
    packs = any(discardable.PACKING.is_on(op) for op in walk(kernel))
    clamp_tiles(kernel, pipelines, fills_sink=packs)
    pipelines.run("func.func(canonicalize)", kernel)
    if packs:
        sink_fills(kernel)
    tiles = find_ops(kernel, lambda op: op.name.startswith("linalg.") and op.name != "linalg.yield")
    blocks = {op.block: None for op in tiles}
    for block in blocks:
        if not block.owner.operation.name.startswith("linalg."):
            replace(tiler).run(op for op in block.operations if not discardable.PACKING.is_on(op.operation))
    for op in find_ops(kernel, converts_blocks):
        view = op.opview
        assert isinstance(view, linalg.GenericOp)
        convert_blocks(view, tiler.lanes)
