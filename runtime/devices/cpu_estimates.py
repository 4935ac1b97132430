"""Estimates of the time of kernels on a CPU, by its roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..facts import CodeShape, CompileFacts, KernelDetails, Operand
from ..program import KernelInfo, Program
from .loader import Estimates
from .roofline import Roofline, machine_of_target, roofline_of

_ELEMENTS = {"int8": "i8", "uint8": "i8", "bfloat16": "bf16"}
"""Types of operands that have instructions of their own, by their names."""


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

    def describe(info: KernelInfo) -> dict[str, Any]:
        return _code(info, known.details_of(info.name), known.operands_of(info.name), limits)

    return Estimates(describe, limit.vector_bits, peaks)


def peak_of(program: Program, kernel: KernelInfo) -> float:
    """Returns the peak of a kernel's operations, by the type that it multiplies, relative to that of float32."""
    known = program.compile_facts
    element = _element(known.details_of(kernel.name), known.operands_of(kernel.name))
    if element == "f32":
        return 1.0
    return machine_of_target(program.target, known.vector_bytes).relative_rate(element)


def _code(
    info: KernelInfo, details: KernelDetails, operands: Sequence[Operand], limits: Mapping[int, Roofline]
) -> dict[str, Any]:
    blocks = list(details.blocks)
    limit = limits[max(limits) if blocks else 1]
    code = details.code or CodeShape(limit.vector_bits)
    bits, scalar = code.vector_bits, code.scalar_share
    element = _element(details, operands)
    seconds, bound = limit.seconds(info.flops, info.bytes, (1 - scalar) * bits + scalar * 32, element)
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


def _element(details: KernelDetails, operands: Sequence[Operand]) -> str:
    """Returns the type that a kernel multiplies: that of its first operand, if it is a product of such a type."""
    if "bytes_method" not in details.schedule or not operands:
        return "f32"
    return _ELEMENTS.get(operands[0].dtype, "f32")
