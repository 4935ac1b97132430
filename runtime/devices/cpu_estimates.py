"""Estimates of the time of kernels on a CPU, by its roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..facts import CodeShape, CompileFacts, KernelDetails
from ..program import KernelInfo, Program
from .loader import Estimates
from .roofline import Roofline, roofline_of


def estimates_of(program: Program, known: CompileFacts, threads: int) -> Estimates:
    """Returns the estimates of a program's kernels on a number of threads.

    Args:
        program: the program.
        known: the compiler's facts about it.
        threads: number of threads of a call.
    """
    limits = {
        count: roofline_of(program.target, known.vector_bytes, count)
        for count in {1, threads if program.uses_threads else 1}
    }
    limit = limits[max(limits)]
    peaks = {
        "source": limit.source,
        "device": "",
        "flops": limit.flops,
        "matrix_flops": {},
        "bandwidth": limit.bandwidth,
        "threads": limit.threads,
    }
    return Estimates(lambda info: _code(info, known.details_of(info.name), limits), limit.vector_bits, peaks)


def _code(info: KernelInfo, details: KernelDetails, limits: Mapping[int, Roofline]) -> dict[str, Any]:
    blocks = list(details.blocks)
    limit = limits[max(limits) if blocks else 1]
    code = details.code or CodeShape(limit.vector_bits)
    bits, scalar = code.vector_bits, code.scalar_share
    seconds, bound = limit.seconds(info.flops, info.bytes, (1 - scalar) * bits + scalar * 32)
    return {
        "vector_bits": bits,
        "scalar_share": scalar,
        "gathers": code.gathers,
        "library_calls": dict(code.calls),
        "blocks": blocks,
        "threads": min(limit.threads, max(blocks, default=1)),
        "serial": details.serial,
        "predicted_seconds": seconds,
        "bound": bound,
    }
