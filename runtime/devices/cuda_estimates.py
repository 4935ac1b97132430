"""Estimates of the time of work on a GPU from the peaks in its data sheet; nothing is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...machines.gpus import BYTES, DATA_SHEETS, FLOAT32, SHORT, DevicePeaks
from ..facts import CompileFacts, KernelDetails, Operand
from ..launch_plan import Launch
from ..program import CodeTarget, KernelInfo, Program
from .loader import Estimates

_KINDS = {"f32": FLOAT32, "tf32": "tf32", "f16": SHORT, "bf16": SHORT}
"""Element types that are multiplied, by their names in schedules; any other has 8 bits."""
_DTYPES = {"float16": SHORT, "bfloat16": SHORT, "int8": BYTES, "uint8": BYTES}
_MULTIPLIES = {"contraction", "attention"}


def peaks_of(target: CodeTarget) -> DevicePeaks:
    """Returns the peaks of the GPU listed for the target's compute capability.

    Raises:
        KeyError: its data sheet is not known.
    """
    return DATA_SHEETS[target.cpu]


def estimates_of(program: Program, known: CompileFacts) -> Estimates:
    """Returns the estimates of a program's kernels, from the compiler's facts about it."""
    peaks = peaks_of(program.target)
    launches: dict[str, list[Launch]] = {}
    for launch in () if program.launches is None else program.launches.launches:
        launches.setdefault(launch.kernel, []).append(launch)

    def describe(info: KernelInfo) -> dict[str, Any]:
        details, operands = known.details_of(info.name), known.operands_of(info.name)
        return code_of(info, details, operands, launches.get(info.name, []), peaks)

    return Estimates(describe, 0, peaks.record())


def code_of(
    info: KernelInfo,
    details: KernelDetails,
    operands: Sequence[Operand],
    launches: Sequence[Launch],
    peaks: DevicePeaks,
) -> dict[str, Any]:
    """Returns the report's entries on a kernel's code: the thread blocks of each of its launches, and its estimate."""
    distinct = {launch.entry: launch for launch in launches}.values()
    seconds, bound = peaks.seconds(_kind(details.schedule, operands), info.flops, info.bytes)
    return {
        "vector_bits": 0,
        "scalar_share": 0.0,
        "gathers": 0,
        "library_calls": {},
        "blocks": [math.prod(launch.grid) for launch in distinct],
        "threads": max((math.prod(launch.block) for launch in distinct), default=0),
        "serial": "",
        "predicted_seconds": seconds,
        "bound": bound,
    }


def _kind(schedule: Mapping[str, Any], operands: Sequence[Operand]) -> str:
    """Returns the element type that a kernel multiplies: from its schedule, or else from its first operand."""
    if "compute" in schedule:
        return _KINDS.get(str(schedule["compute"]), BYTES)
    if not _MULTIPLIES & set(str(schedule.get("name", "")).split("+")) or not operands:
        return FLOAT32
    return _DTYPES.get(operands[0].dtype, FLOAT32)
