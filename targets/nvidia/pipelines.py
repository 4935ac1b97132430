"""The pipelines of the phases `tiled`, `gpu` and `nvvm` for GPUs."""

from __future__ import annotations

import functools

from ...passes.infra.pipeline import Nested, Pipeline


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
