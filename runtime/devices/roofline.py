"""Roofline estimates of the time of work on a processor, from measured peaks or from its clock."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from .. import processor
from ..cache.cache import default_cache
from ..program import CodeTarget
from . import peaks
from .peaks import Peaks

# For processors that do not report their clock, and for targets other than this machine.
_CLOCK = 3.0e9
# Per core: multiply-adds per cycle, bytes per cycle of the nearest caches, bytes per second of memory.
_FMA_UNITS, _CACHE_BYTES_PER_CYCLE, _MEMORY_BYTES_PER_SECOND = 2, 16, 12e9
_CACHE_BYTES, _FAR_BYTES = 1 << 20, 1 << 28
_ELEMENT_BITS = 32


@dataclass(frozen=True)
class Roofline:
    """The peaks of a number of cores.

    Attributes:
        source: origin of the numbers: "measured" on this machine, or "nominal", from clock and vector width.
        vector_bits: width of the target's vectors in bits.
        threads: number of cores.
        flops: float32 operations per second of all cores, two per multiply-add.
        near: bytes per second of all cores if the data stays in the nearest caches.
        bandwidth: bytes per second of memory.
        measured: the measurements, if the peaks are measured.
    """

    source: str
    vector_bits: int
    threads: int
    flops: float
    near: float
    bandwidth: float
    measured: Peaks | None = None

    def seconds(self, flops: float, size: float, vector_bits: float) -> tuple[float, str]:
        """Estimates the time of work with these operations, on vectors of this width, and these bytes.

        Returns:
            The time in seconds, and its bound: "compute" or "memory".
        """
        compute = flops / (self.flops * min(1.0, max(_ELEMENT_BITS, vector_bits) / self.vector_bits))
        memory = size / self._rate(size)
        return max(compute, memory), "compute" if compute >= memory else "memory"

    def _rate(self, size: float) -> float:
        if self.measured is not None:
            return self.measured.rate(size)
        return self.near if size <= _CACHE_BYTES else self.bandwidth


def roofline_of(target: CodeTarget, vector_bytes: int, threads: int) -> Roofline:
    """Returns the peaks of code for a target on a number of cores: measured ones of this machine, else nominal ones."""
    bits = 8 * (vector_bytes or vector_bytes_of(target))
    measured = None if processor.missing(target) else _measured(threads)
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
    except FileNotFoundError:  # LLVM, which identifies the processor, is not installed
        return None
    # More threads than cores are not faster, and were not measured.
    return found if found is not None and found.threads == threads else None


def vector_bytes_of(target: CodeTarget) -> int:
    """Returns the width of a target's vectors in bytes, by its features."""
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
        pass  # many virtual machines lack this file
    try:
        found = re.search(r"^cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return float(found[1]) * 1e6 if found else _CLOCK
