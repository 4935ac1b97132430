"""How long work takes on a processor if its peaks are the only limit: those measured of it, or those by its clock."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from .. import host, peaks
from ..cache import default_cache
from ..peaks import Peaks
from ..program import CpuTarget

# Of processors that do not tell their clock, and of others than this one.
_CLOCK = 3.0e9
# Of one core: two multiply-adds a cycle; what the caches near it give in a cycle, and what memory gives in a second.
_FMA_UNITS, _CACHE_BYTES_PER_CYCLE, _MEMORY_BYTES_PER_SECOND = 2, 16, 12e9
_CACHE_BYTES, _FAR_BYTES = 1 << 20, 1 << 28
_ELEMENT_BITS = 32


@dataclass(frozen=True)
class Roofline:
    """What a number of cores can do.

    Attributes:
        source: where the numbers come from: "measured" on this machine, or "nominal", from clock and vector width.
        vector_bits: the width of the target's vectors.
        threads: how many cores.
        flops: float32 operations per second of all of them, two per multiply-add.
        near: bytes per second of all of them where the data stays near the cores.
        bandwidth: bytes per second from memory.
        measured: what was measured of so many cores.
    """

    source: str
    vector_bits: int
    threads: int
    flops: float
    near: float
    bandwidth: float
    measured: Peaks | None = None

    def seconds(self, flops: float, size: float, vector_bits: float) -> tuple[float, str]:
        """An estimate for work that computes so much on vectors of a width and moves so much, and what bounds it.

        Returns:
            The time, and "compute" or "memory".
        """
        compute = flops / (self.flops * min(1.0, max(_ELEMENT_BITS, vector_bits) / self.vector_bits))
        memory = size / self._rate(size)
        return max(compute, memory), "compute" if compute >= memory else "memory"

    def _rate(self, size: float) -> float:
        if self.measured is not None:
            return self.measured.rate(size)
        return self.near if size <= _CACHE_BYTES else self.bandwidth


def roofline_of(target: CpuTarget, vector_bytes: int, threads: int) -> Roofline:
    """What code for a target can do on so many cores: of this machine, where it was measured; else nominally."""
    bits = 8 * (vector_bytes or vector_bytes_of(target))
    measured = None if host.missing(target) else _measured(threads)
    if measured is not None:
        flops = measured.flops * min(1.0, bits / (_ELEMENT_BITS * peaks.lanes()))
        near, far = measured.rate(_CACHE_BYTES), measured.rate(_FAR_BYTES)
        return Roofline("measured", bits, threads, flops, near, far, measured)
    clock = _clock()
    flops = 2 * _FMA_UNITS * bits / _ELEMENT_BITS * clock * threads
    near, far = _CACHE_BYTES_PER_CYCLE * clock * threads, _MEMORY_BYTES_PER_SECOND * min(threads, 4)
    return Roofline("nominal", bits, threads, flops, near, far)


def _measured(threads: int) -> Peaks | None:
    try:
        found = peaks.kept(threads, default_cache())
    except FileNotFoundError:  # no LLVM is installed, by which the processor is told from others
        return None
    # More threads than cores are no faster, and were not measured.
    return found if found is not None and found.threads == threads else None


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
