"""Roofline estimates of the time of work on a processor: from measured peaks, or from the description of its family."""

from __future__ import annotations

from dataclasses import dataclass

from ...machines.costs import MEMORY, Work, cost_of, level_of, rate_of
from ...machines.machine import Machine
from ...machines.names import machine_of_cpu
from ...support.packages import MissingPackageError
from .. import processor
from ..cache.cache import default_cache
from ..program import CodeTarget
from . import peaks
from .peaks import Peaks

_ELEMENT_BITS = 32
"""Width of a float32 in bits."""


@dataclass(frozen=True)
class Roofline:
    """The peaks of a number of cores.

    Attributes:
        machine: description of the machine.
        threads: number of cores.
        measured: the measured peaks of this number of cores; None for those of the description.
    """

    machine: Machine
    threads: int
    measured: Peaks | None = None

    @property
    def source(self) -> str:
        """Origin of the numbers: "measured" on this machine, or "nominal", from the description."""
        return "nominal" if self.measured is None else "measured"

    @property
    def vector_bits(self) -> int:
        """Width of the target's vectors in bits."""
        return 8 * self.machine.vector_bytes

    @property
    def flops(self) -> float:
        """Operations of float32 per second of all cores, two per multiply-add."""
        if self.measured is None:
            return 1e9 * self.machine.flops * self.threads
        return self.measured.flops * min(1.0, self.vector_bits / (_ELEMENT_BITS * peaks.lanes()))

    @property
    def bandwidth(self) -> float:
        """Bytes per second of memory."""
        if self.measured is None:
            return 1e9 * rate_of(self.machine, MEMORY, self.threads)
        return self.measured.rate(peaks.FAR_BYTES)

    def seconds(self, flops: float, size: float, vector_bits: float, element: str = "f32") -> tuple[float, str]:
        """Estimates the time of work with these operations, on vectors of this width, and these bytes.

        Args:
            flops: number of operations, two per multiply-add.
            size: number of bytes that are moved.
            vector_bits: width of the vectors.
            element: type that is multiplied, see `Machine.relative_rate`.

        Returns:
            The time in seconds, and its bound: "compute" or "memory".
        """
        share = min(1.0, max(_ELEMENT_BITS, vector_bits) / self.vector_bits)
        amount = flops / self.machine.relative_rate(element)
        if self.measured is not None:
            compute, memory = amount / (self.flops * share), size / self.measured.rate(size)
            return max(compute, memory), "compute" if compute >= memory else "memory"
        # The data that a kernel reads was written by another kernel, so it is hardly in the first-level cache.
        level = max(2, level_of(self.machine, size, self.threads))
        cost = cost_of(self.machine, Work(amount, vector_share=share, moved={level: size}), self.threads)
        return cost.nanoseconds / 1e9, cost.bound


def roofline_of(target: CodeTarget, vector_bytes: int, threads: int) -> Roofline:
    """Returns the peaks of code for a target on a number of cores: measured ones of this machine, else nominal ones."""
    measured = None if processor.missing(target) else _measured(threads)
    return Roofline(machine_of_target(target, vector_bytes), threads, measured)


def machine_of_target(target: CodeTarget, vector_bytes: int) -> Machine:
    """Returns the machine that code is for, with vectors of this width; 0 stands for that of the target's features."""
    width = vector_bytes or vector_bytes_of(target)
    registers = 16 if target.architecture == "x86_64" and width < 64 else 32
    return machine_of_cpu(target.cpu, target.architecture, target.features, width, registers)


def _measured(threads: int) -> Peaks | None:
    try:
        found = peaks.kept(threads, default_cache())
    except MissingPackageError:  # LLVM, which identifies the processor, is not installed
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
