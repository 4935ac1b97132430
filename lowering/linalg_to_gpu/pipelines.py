"""The pipelines of the phases `tiled`, `gpu` and `nvvm` of a GPU."""

from __future__ import annotations

import functools

from ...passes.pipeline import Nested, Pipeline

LAUNCHES = "stepwell.launches"
"""On kernels: what they launch, which their callers see without their bodies."""


@functools.cache
def launches_pipeline(target: str) -> Pipeline:
    """From kernels to launches, each with a schedule."""
    return Pipeline(
        (
            # While a contraction is still seen with what follows it.
            f"stepwell-split-sums{{target={target}}}",
            f"stepwell-form-launches{{target={target}}}",
        )
    )


@functools.cache
def gpu_pipeline(target: str) -> Pipeline:
    """From launches on tensors to kernels of the gpu dialect, on buffers in one arena."""
    return Pipeline(
        (
            "stepwell-plan-memory",
            f"stepwell-emit-launches{{target={target}}}",
            # What launches of one kernel leave each other lies where the arena is free meanwhile.
            "stepwell-plan-workspaces",
            Nested("gpu.module", ("canonicalize", "cse", "loop-invariant-code-motion")),
            "stepwell-approximate-math",
            "stepwell-record-launches",
        )
    )


@functools.cache
def nvvm_pipeline(target: str) -> Pipeline:
    """From the gpu dialect to NVVM, kernels only: what is around them is a plan by now."""
    return Pipeline(
        (
            # Before the conversion, which would call NVIDIA's own library for what is one instruction.
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
