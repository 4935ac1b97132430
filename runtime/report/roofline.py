"""How long work takes at best on a processor: its peaks, by its clock, its vectors and its number of threads."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from ..program import CpuTarget

# Of processors that do not tell their clock, and of others than this one.
_CLOCK = 3.0e9
# Of one core: two multiply-adds a cycle; what the caches near it give in a cycle, and what memory gives in a second.
_FMA_UNITS, _CACHE_BYTES_PER_CYCLE, _MEMORY_BYTES_PER_SECOND = 2, 16, 12e9
_CACHE_BYTES = 1 << 20


@dataclass(frozen=True)
class Roofline:
    """What a number of cores can do at best.

    Attributes:
        source: where the numbers come from: "nominal" ones follow from clock and vector width.
        clock: cycles per second.
        vector_bits: the width of the vectors in the code.
        threads: how many cores.
    """

    source: str
    clock: float
    vector_bits: int
    threads: int

    @property
    def flops(self) -> float:
        """float32 operations per second, two per multiply-add."""
        return 2 * _FMA_UNITS * self.vector_bits / 32 * self.clock * self.threads

    def rate(self, size: float) -> float:
        """Bytes per second where so many are moved: near the cores, or from memory."""
        if size <= _CACHE_BYTES:
            return _CACHE_BYTES_PER_CYCLE * self.clock * self.threads
        return _MEMORY_BYTES_PER_SECOND * min(self.threads, 4)

    def seconds(self, flops: float, size: float) -> tuple[float, str]:
        """The least time of work that computes and moves so much, and whether "compute" or "memory" bounds it."""
        compute, memory = flops / self.flops, size / self.rate(size)
        return max(compute, memory), "compute" if compute >= memory else "memory"


def roofline_of(target: CpuTarget, vector_bytes: int, threads: int) -> Roofline:
    """The nominal roofline of code for a target; its clock is that of this machine, as far as it tells."""
    return Roofline("nominal", _clock(), 8 * (vector_bytes or vector_bytes_of(target)), threads)


def vector_bytes_of(target: CpuTarget) -> int:
    """The width of a target's vectors by its features."""
    if target.architecture != "x86_64":
        return 16
    features = {*target.features, target.cpu}
    if features & {"+avx512f", "x86-64-v4"}:
        return 64
    return 32 if features & {"+avx", "+avx2", "x86-64-v3"} else 16


@functools.cache
def _clock() -> float:
    fastest = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    try:
        return float(fastest.read_text()) * 1e3
    except (OSError, ValueError):
        pass  # many virtual machines do not tell it there
    try:
        found = re.search(r"^cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return float(found[1]) * 1e6 if found else _CLOCK
