"""Estimates of the time of work on a GPU from the peaks that its maker publishes; nothing is measured.

The peaks are from NVIDIA's data sheets of the A100 80GB SXM, A10, L40S, H100 SXM, and of one GPU of the HGX B200.
Matrices are assumed dense; some sheets give sparse rates, which are twice as high.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..facts import CompileFacts, KernelDetails, Operand
from ..launch_plan import Launch
from ..program import CodeTarget, KernelInfo, Program
from .loader import Estimates

SOURCE = "published"
FLOAT32, _SHORT, _BYTES = "float32", "16 bits", "8 bits"
_KINDS = {"f32": FLOAT32, "tf32": "tf32", "f16": _SHORT, "bf16": _SHORT}
"""Element types that are multiplied, by their names in schedules; any other has 8 bits."""
_DTYPES = {"float16": _SHORT, "bfloat16": _SHORT, "int8": _BYTES, "uint8": _BYTES}
_MULTIPLIES = {"contraction", "attention"}


@dataclass(frozen=True)
class DevicePeaks:
    """The peaks in the data sheet of a GPU.

    Attributes:
        name: the GPU.
        bandwidth: bytes per second of its memory.
        rates: operations per second, two per multiply-add: for `float32` as exact as on a CPU, and for tensor cores by
            the multiplied elements: `tf32`, `16 bits`, `8 bits`.
    """

    name: str
    bandwidth: float
    rates: Mapping[str, float]

    def seconds(self, kind: str, flops: float, size: float) -> tuple[float, str]:
        """Returns the estimated time of work with these operations and bytes, and its bound: "compute" or "memory"."""
        compute, memory = flops / self.rates[kind], size / self.bandwidth
        return max(compute, memory), "compute" if compute >= memory else "memory"

    def record(self) -> dict[str, Any]:
        """Returns the peaks in the form of the report's record."""
        return {
            "source": SOURCE,
            "device": self.name,
            "flops": self.rates[FLOAT32],
            "matrix_flops": {kind: rate for kind, rate in self.rates.items() if kind != FLOAT32},
            "bandwidth": self.bandwidth,
            "threads": 0,
        }


def _sheet(name: str, gigabytes: float, float32: float, tf32: float, short: float, bytes: float) -> DevicePeaks:
    """Returns the peaks of a GPU from gigabytes per second and tera-operations per second."""
    rates = {FLOAT32: float32, "tf32": tf32, _SHORT: short, _BYTES: bytes}
    return DevicePeaks(name, gigabytes * 1e9, {kind: rate * 1e12 for kind, rate in rates.items()})


_SHEETS = {
    "sm_80": _sheet("NVIDIA A100 80GB SXM", 2039, 19.5, 156, 312, 624),
    "sm_86": _sheet("NVIDIA A10", 600, 31.2, 62.5, 125, 250),
    "sm_89": _sheet("NVIDIA L40S", 864, 91.6, 183, 362, 733),
    "sm_90a": _sheet("NVIDIA H100 SXM", 3350, 67, 494.5, 989.5, 1979),
    "sm_100a": _sheet("NVIDIA B200", 7700, 75, 1100, 2250, 4500),
}


def peaks_of(target: CodeTarget) -> DevicePeaks:
    """Returns the peaks of the GPU listed for the target's compute capability.

    Raises:
        KeyError: its data sheet is not known.
    """
    return _SHEETS[target.cpu]


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
        return _KINDS.get(str(schedule["compute"]), _BYTES)
    if not _MULTIPLIES & set(str(schedule.get("name", "")).split("+")) or not operands:
        return FLOAT32
    return _DTYPES.get(operands[0].dtype, FLOAT32)
