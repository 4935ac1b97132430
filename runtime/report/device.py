"""How long work takes on a GPU if the peaks that its maker publishes are its only limit; nothing of it is measured.

The peaks are those of NVIDIA's data sheets: of the A100 80GB SXM, A10, L40S, H100 SXM and, for one GPU of it, HGX B200;
matrices are taken as dense, whose rates are half of what some of the sheets give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cuda.launch_plan import Launch
from ..program import CpuTarget, KernelInfo

SOURCE = "published"
_FLOAT, _SHORT, _BYTES = "float32", "16 bits", "8 bits"
_KINDS = {"f32": _FLOAT, "tf32": "tf32", "f16": _SHORT, "bf16": _SHORT}
"""What is multiplied, as schedules name it; all else is of 8 bits."""
_DTYPES = {"float16": _SHORT, "bfloat16": _SHORT, "int8": _BYTES, "uint8": _BYTES}
_MULTIPLIES = {"contraction", "attention"}


@dataclass(frozen=True)
class DevicePeaks:
    """What the data sheet of a GPU says.

    Attributes:
        name: the GPU.
        bandwidth: bytes per second from its memory.
        rates: operations per second, two per multiply-add: of `float32` as exact as on a CPU, and of tensor cores, by
            what they multiply: `tf32`, elements of `16 bits`, of `8 bits`.
    """

    name: str
    bandwidth: float
    rates: Mapping[str, float]

    def seconds(self, kind: str, flops: float, size: float) -> tuple[float, str]:
        """An estimate for work that computes and moves so much, and what bounds it: "compute" or "memory"."""
        compute, memory = flops / self.rates[kind], size / self.bandwidth
        return max(compute, memory), "compute" if compute >= memory else "memory"

    def record(self) -> dict[str, Any]:
        """The peaks as the report's record has them."""
        return {
            "source": SOURCE,
            "device": self.name,
            "flops": self.rates[_FLOAT],
            "matrix_flops": {kind: rate for kind, rate in self.rates.items() if kind != _FLOAT},
            "bandwidth": self.bandwidth,
            "threads": 0,
        }


def _sheet(name: str, gigabytes: float, float32: float, tf32: float, short: float, bytes: float) -> DevicePeaks:
    """The peaks of a GPU from gigabytes and tera-operations per second."""
    rates = {_FLOAT: float32, "tf32": tf32, _SHORT: short, _BYTES: bytes}
    return DevicePeaks(name, gigabytes * 1e9, {kind: rate * 1e12 for kind, rate in rates.items()})


_SHEETS = {
    "sm_80": _sheet("NVIDIA A100 80GB SXM", 2039, 19.5, 156, 312, 624),
    "sm_86": _sheet("NVIDIA A10", 600, 31.2, 62.5, 125, 250),
    "sm_89": _sheet("NVIDIA L40S", 864, 91.6, 183, 362, 733),
    "sm_90a": _sheet("NVIDIA H100 SXM", 3350, 67, 494.5, 989.5, 1979),
    "sm_100a": _sheet("NVIDIA B200", 7700, 75, 1100, 2250, 4500),
}


def peaks_of(target: CpuTarget) -> DevicePeaks:
    """What the first of the GPUs that code is made for can do.

    Raises:
        KeyError: its data sheet is not known.
    """
    return _SHEETS[target.cpu]


def code_of(
    info: KernelInfo,
    details: Mapping[str, Any],
    operands: Sequence[Mapping[str, Any]],
    launches: Sequence[Launch],
    peaks: DevicePeaks,
) -> dict[str, Any]:
    """What the report says of a kernel's code: the blocks of threads of each of its launches, and its estimate."""
    distinct = {launch.entry: launch for launch in launches}.values()
    seconds, bound = peaks.seconds(_kind(details.get("schedule", {}), operands), info.flops, info.bytes)
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


def _kind(schedule: Mapping[str, Any], operands: Sequence[Mapping[str, Any]]) -> str:
    """What a kernel multiplies: as its schedule says, or by its first operand where that says only its name."""
    if "compute" in schedule:
        return _KINDS.get(str(schedule["compute"]), _BYTES)
    if not _MULTIPLIES & set(str(schedule.get("name", "")).split("+")) or not operands:
        return _FLOAT
    return _DTYPES.get(str(operands[0]["dtype"]), _FLOAT)
