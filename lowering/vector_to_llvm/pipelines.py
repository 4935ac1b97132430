"""The pipelines of the phases `memref` and `llvm`."""

from __future__ import annotations

import functools

from ...passes.pipeline import Nested, Pipeline
from ..target import Target

STACK_BYTES = 256 * 1024
"""The largest buffer that a kernel may keep on the stack; bigger ones become workspace in the arena."""


@functools.cache
def memref_pipeline(target: str) -> Pipeline:
    """From vector code on tensors to buffers: kernels write to their destinations, the rest lies in the arena."""
    return Pipeline(
        (
            # Main needs a plan more than an analysis: every tensor in it is a whole buffer that one kernel writes.
            "stepwell-plan-memory",
            # From here on a call is of one version of its kernel.
            "stepwell-branch-to-versions",
            "stepwell-eliminate-empty-tensors",
            "one-shot-bufferize{buffer-alignment=64}",
            # Bufferisation leaves copies of a buffer to itself; they go once cse has made the two sides one value.
            "cse,canonicalize",
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
            # Where sizes vary, loops end where those of a call do.
            "stepwell-bound-loops",
            # Threads: what is worth sharing out becomes blocks that a caller may do any range of.
            "stepwell-choose-parallel-loops,stepwell-share-out-loops",
            # No loop is parallel any more.
            "stepwell-hoist-stack",
        )
    )


@functools.cache
def llvm_pipeline(target: str) -> Pipeline:
    """From buffers to the LLVM dialect, with a team of threads for the kernels that are shared out."""
    return Pipeline(
        (
            "stepwell-lower-copies",
            "stepwell-lower-vectors",
            # Before loops are doubled.
            "stepwell-prefetch-rows",
            f"stepwell-stream-stores{{target={target}}}",
            *_narrow_floats(Target.parse(target)),
            # What the vector patterns left as transfers or linalg becomes loops.
            Nested("func.func", ("convert-linalg-to-loops", "convert-vector-to-scf{full-unroll=true}")),
            # Views become offsets. Folding them into loads (fold-memref-alias-ops) would divide the index of a
            # collapsed dimension by the extents that it is made of, in every iteration.
            "expand-strided-metadata,lower-affine,cse",
            "convert-scf-to-cf",
            "convert-vector-to-llvm{reassociate-fp-reductions=true}",
            "finalize-memref-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm",
            # Bare pointers keep noalias, which the descriptor convention drops.
            "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
            "convert-cf-to-llvm,convert-ub-to-llvm,reconcile-unrealized-casts,canonicalize,cse",
            *(("stepwell-move-narrow-floats",) if _narrow_floats(Target.parse(target)) else ()),
            # Where sizes vary, kernels read what lies beyond the data.
            f"stepwell-flush-denormals{{target={target}}}",
            f"stepwell-share-out-calls{{target={target}}}",
            "stepwell-add-entry",
        )
    )


def _narrow_floats(target: Target) -> tuple[str, ...]:
    """Where there is no instruction for bf16, LLVM would call functions that only the newest libgcc has."""
    if target.architecture != "x86_64" or "+avx512bf16" in target.features:
        return ()
    return (
        "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32}",
        "arith-expand{include-bf16=true}",
    )
