"""Pipelines of the phases `memref` and `llvm`."""

from __future__ import annotations

import functools

from ...passes.infra.elements import Nested
from ...passes.infra.pipeline import Pipeline
from ..target import Target

STACK_BYTES = 256 * 1024
"""Maximum size of a buffer that a kernel may keep on the stack, in bytes; larger ones become workspace in the arena."""


@functools.cache
def memref_pipeline(target: str) -> Pipeline:
    """Lowers vector code on tensors to buffers: kernels write to their destinations, other buffers are in the arena."""
    return Pipeline(
        (
            # @main needs a memory plan, not a bufferisation analysis: every tensor in it is a buffer that one kernel
            # writes.
            "stepwell-plan-memory",
            # From here on, a call is of one version of its kernel.
            "stepwell-branch-to-versions",
            "stepwell-eliminate-empty-tensors",
            "one-shot-bufferize{buffer-alignment=64}",
            # Bufferisation leaves copies of a buffer to itself; they are removed once cse has merged both sides.
            "cse,canonicalize,stepwell-drop-self-copies",
            # Temporaries leave sequential loops (never parallel ones); small ones go to the stack, others to the arena.
            Nested(
                "func.func",
                (
                    "buffer-hoisting",
                    "buffer-loop-hoisting",
                    f"promote-buffers-to-stack{{max-alloc-size-in-bytes={STACK_BYTES} max-rank-of-allocated-memref=8}}",
                ),
            ),
            "stepwell-plan-workspaces",
            # If sizes vary, loops end at the sizes of a call.
            "stepwell-bound-loops",
            # Threads: loops worth distributing become blocks, of which a caller may request any range.
            f"stepwell-choose-parallel-loops{{target={target}}},stepwell-share-out-loops{{target={target}}}",
            # No loop is parallel any more.
            "stepwell-hoist-stack",
        )
    )


@functools.cache
def llvm_pipeline(target: str) -> Pipeline:
    """Lowers buffers to the LLVM dialect, with a thread pool for the distributed kernels."""
    return Pipeline(
        (
            "stepwell-lower-copies",
            f"stepwell-lower-matrix-tiles{{target={target}}}",
            "stepwell-interleave-epilogues",
            "stepwell-lower-vectors",
            # Before loops are duplicated.
            f"stepwell-prefetch-rows{{target={target}}}",
            f"stepwell-stream-stores{{target={target}}}",
            *_narrow_floats(Target.parse(target)),
            # Transfers and linalg ops that the vector patterns left become loops.
            Nested("func.func", ("convert-linalg-to-loops", "convert-vector-to-scf{full-unroll=true}")),
            # Views become offsets. Folding them into loads (fold-memref-alias-ops) would divide the index of a
            # collapsed dimension by its original extents in every iteration.
            "expand-strided-metadata,lower-affine,cse",
            "convert-scf-to-cf",
            "convert-vector-to-llvm{reassociate-fp-reductions=true}",
            "finalize-memref-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm",
            # Bare pointers keep noalias, which the descriptor convention drops.
            "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
            "convert-cf-to-llvm,convert-ub-to-llvm,reconcile-unrealized-casts,canonicalize,cse",
            *(("stepwell-move-narrow-floats",) if _emulates_brains(Target.parse(target)) else ()),
            # If sizes vary, kernels read beyond the data.
            f"stepwell-flush-denormals{{target={target}}}",
            f"stepwell-share-out-calls{{target={target}}}",
            "stepwell-add-entry",
        )
    )


def _narrow_floats(target: Target) -> tuple[str, ...]:
    """Emulates bf16 and f16 on targets without instructions for them.

    For x86-64, LLVM would call functions of the newest libgcc only. For AArch64, LLVM 22 rounds sums and products of
    8 or more elements by the last bits of an operand instead of those of the result.
    """
    brains = (
        "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32}",
        "arith-expand{include-bf16=true}",
    )
    halves = ("arith-emulate-unsupported-floats{source-types=f16 target-type=f32}", "stepwell-expand-half-floats")
    return (
        *(brains if _emulates_brains(target) else ()),
        *(() if target.converts_half_floats else halves),
    )


def _emulates_brains(target: Target) -> bool:
    return not {"+avx512bf16", "+bf16"} & set(target.features)
