"""Estimates of the time of kernels on a CPU, by its roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..devices.loader import Estimates
from ..program import KernelInfo, Program
from .roofline import Roofline, roofline_of


def estimates_of(program: Program, known: Mapping[str, Any], threads: int) -> Estimates:
    """Returns the estimates of a program's kernels on a number of threads.

    Args:
        program: the program.
        known: the compiler's facts about it.
        threads: number of threads of a call.
    """
    limits = {
        count: roofline_of(program.target, known["vector_bytes"], count)
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
    return Estimates(lambda info: _code(info, known["details"].get(info.name, {}), limits), limit.vector_bits, peaks)


def _code(info: KernelInfo, details: Mapping[str, Any], limits: Mapping[int, Roofline]) -> dict[str, Any]:
    blocks = [int(count) for count in details.get("blocks", [])]
    limit = limits[max(limits) if blocks else 1]
    code = details.get("code", {})
    bits, scalar = int(code.get("vector_bits", limit.vector_bits)), float(code.get("scalar_share", 0.0))
    seconds, bound = limit.seconds(info.flops, info.bytes, (1 - scalar) * bits + scalar * 32)
    return {
        "vector_bits": bits,
        "scalar_share": scalar,
        "gathers": int(code.get("gathers", 0)),
        "library_calls": {str(name): int(count) for name, count in code.get("calls", {}).items()},
        "blocks": blocks,
        "threads": min(limit.threads, max(blocks, default=1)),
        "serial": str(details.get("serial", "")),
        "predicted_seconds": seconds,
        "bound": bound,
    }
