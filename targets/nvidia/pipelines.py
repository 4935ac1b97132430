"""The pipelines of the phases `graph`, `tiled`, `gpu` and `nvvm`."""

from __future__ import annotations

import functools
from dataclasses import replace

from ...passes.graph.constants.hoist_parameters import HoistParametersPass
from ...passes.graph.layout.sink_movement import SinkMovementPass
from ...passes.graph.packing.pack_weights import PackWeightsPass
from ...passes.graph.pipelines import GRAPH_PIPELINE, in_precision
from ...passes.graph.products.merge_projections import MergeProjectionsPass
from ...passes.graph.simplification.cse import CsePass
from ...passes.graph.simplification.dce import DcePass
from ...passes.graph.simplification.decompose import DecomposePass
from ...passes.graph.simplification.fuse_composites import FuseCompositesPass
from ...passes.infra.elements import Nested, PassElement
from ...passes.infra.machine_option import WHOLE_ROWS
from ...passes.infra.pipeline import Pipeline


def graph_pipeline(precision: str = "f32", has_wgmma: bool = False) -> Pipeline:
    """The passes from phase `import` to phase `graph`.

    Weights stay matrices with contiguous columns: thread blocks load the tiles that they need. Kernels round to `tf32`
    as they multiply. Warp groups multiply `tf32` only if lines run along the contracted dimension.

    Args:
        precision: precision in which products of float32 are computed.
        has_wgmma: whether the target has warp-group multiplication.
    """
    return Pipeline(
        (
            *map(_for_gpu, GRAPH_PIPELINE),
            MergeProjectionsPass(),
            DcePass(),
            *([] if precision == "tf32" else in_precision(precision)),
            # Convolutions keep their padding, because the loads of their windows handle the edges. One panel holds all
            # columns, except for bytes: tensor cores read their lines along the contracted dimension.
            PackWeightsPass(WHOLE_ROWS, by_depth=has_wgmma and precision == "tf32", bytes_by_depth=True),
            SinkMovementPass(),
            CsePass(),
            DcePass(),
            HoistParametersPass(),
        )
    )


def _for_gpu(element: PassElement) -> PassElement:
    """The pass with the options for GPU kernels, if it depends on the available kernels."""
    if isinstance(element, DecomposePass):
        return replace(element, attention="tiles", widens_half=False)
    return replace(element, attention="tiles") if isinstance(element, FuseCompositesPass) else element


@functools.cache
def launches_pipeline(target: str) -> Pipeline:
    """Lowers kernels to launches, each with a schedule."""
    return Pipeline(
        (
            # Runs while a contraction and its consumers are in one kernel.
            f"stepwell-split-sums{{target={target}}}",
            f"stepwell-form-launches{{target={target}}}",
        )
    )


@functools.cache
def gpu_pipeline(target: str) -> Pipeline:
    """Lowers launches on tensors to kernels of the gpu dialect, on buffers in one arena."""
    return Pipeline(
        (
            "stepwell-plan-memory",
            f"stepwell-emit-launches{{target={target}}}",
            # Places the buffers between the launches of a kernel in parts of the arena that are free at that time.
            "stepwell-plan-workspaces",
            Nested("gpu.module", ("canonicalize", "cse", "loop-invariant-code-motion")),
            "stepwell-approximate-math",
            "stepwell-record-launches",
        )
    )


@functools.cache
def nvvm_pipeline(target: str) -> Pipeline:
    """Lowers the gpu dialect to NVVM, kernels only: the host code is a launch plan by now."""
    return Pipeline(
        (
            # Runs before the conversion, which would call NVIDIA's libdevice for single instructions.
            "stepwell-lower-gpu-math",
            Nested(
                "gpu.module",
                (
                    "convert-vector-to-scf{full-unroll=true}",
                    "convert-scf-to-cf",
                    "expand-strided-metadata,lower-affine",
                    "arith-expand{include-bf16=false}",
                    "convert-nvgpu-to-nvvm",
                    "convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=true}",
                    "reconcile-unrealized-casts",
                    "canonicalize",
                    "cse",
                ),
            ),
            "stepwell-pass-tensor-maps",
        )
    )
