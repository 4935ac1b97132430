"""NVIDIA GPUs: capabilities by architecture, the figures that schedules are chosen by, and the peaks of data sheets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The same on all GPUs that have a description; from the CUDA programming guide, tables of technical specifications by
# compute capability and sections on global and shared memory.
WARP = 32
"""Number of threads of a warp."""
BLOCK_THREADS = 1024
"""Maximum number of threads of a block."""
THREAD_REGISTERS = 255
"""Maximum number of 32-bit registers of a thread."""
ACCESS_BYTES = 16
"""Width in bytes of a thread's widest memory access."""
BANKS, BANK_BYTES = 32, 4
"""Number of banks of shared memory, and bytes of a bank that are accessed at once."""
LINE_BYTES = 128
"""Bytes of a cache line."""
SMALLEST_ASYNC_BYTES = 4
"""Minimum number of bytes that a thread copies to shared memory asynchronously (`cp.async`)."""


@dataclass(frozen=True)
class Capability:
    """Capabilities of an NVIDIA GPU and resources of one of its multiprocessors.

    Attributes:
        sm: compute capability as a number, 90 for 9.0.
        is_specific: whether code may use features of this very architecture alone, such as wgmma in `sm_90a`.
        shared_bytes: maximum shared memory of one block in bytes.
        multiprocessor_shared_bytes: shared memory of a multiprocessor in bytes; each block takes 1 KiB more.
        multiprocessor_threads: maximum number of threads on a multiprocessor.
        multiprocessors: number on the largest chip of this kind, which a grid should keep busy.
        multiprocessor_blocks: maximum number of blocks on a multiprocessor.
        registers: number of 32-bit registers of a multiprocessor.
        fma_rate: multiply-adds of float32 per cycle of a multiprocessor.
        mma_rate: multiply-adds of 16-bit floats per cycle by `mma`.
        wgmma_rate: the same by `wgmma`.
        cache_rate: bytes per cycle of reads that other blocks share; an estimate.
        memory_rate: bytes per cycle of reads from memory; an estimate.
        memory_latency: cycles of a read from memory; an estimate.
        launch_cycles: minimum cycles of a launch; an estimate.
    """

    sm: int
    is_specific: bool
    shared_bytes: int
    multiprocessor_shared_bytes: int
    multiprocessor_threads: int
    multiprocessors: int
    multiprocessor_blocks: int = 32
    registers: int = 65536
    fma_rate: int = 128
    mma_rate: int = 1024
    wgmma_rate: int = 2048
    cache_rate: float = 40.0
    memory_rate: float = 16.0
    memory_latency: int = 700
    launch_cycles: int = 4000

    @property
    def has_wgmma(self) -> bool:
        """True if warp groups multiply matrices in shared memory by `wgmma`."""
        return self.sm == 90 and self.is_specific


# From the CUDA programming guide's tables of compute capabilities and of arithmetic throughput; multiprocessors of
# A100, A10, L40, H100/H200, B200.
CAPABILITIES = {
    "sm_80": Capability(80, False, 163 * 1024, 164 * 1024, 2048, 108, fma_rate=64),
    "sm_86": Capability(86, False, 99 * 1024, 100 * 1024, 1536, 72, 16, mma_rate=512),
    "sm_89": Capability(89, False, 99 * 1024, 100 * 1024, 1536, 142, 24, mma_rate=512),
    "sm_90a": Capability(90, True, 227 * 1024, 228 * 1024, 2048, 132),
    "sm_100a": Capability(100, True, 227 * 1024, 228 * 1024, 2048, 148),
}
GPUS = tuple(CAPABILITIES)

SOURCE = "published"
FLOAT32, SHORT, BYTES = "float32", "16 bits", "8 bits"


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
    rates = {FLOAT32: float32, "tf32": tf32, SHORT: short, BYTES: bytes}
    return DevicePeaks(name, gigabytes * 1e9, {kind: rate * 1e12 for kind, rate in rates.items()})


# NVIDIA's data sheets of the A100 80GB SXM, A10, L40S, H100 SXM, and of one GPU of the HGX B200. Rates are those of
# dense matrices; some sheets give sparse rates, which are twice as high.
DATA_SHEETS = {
    "sm_80": _sheet("NVIDIA A100 80GB SXM", 2039, 19.5, 156, 312, 624),
    "sm_86": _sheet("NVIDIA A10", 600, 31.2, 62.5, 125, 250),
    "sm_89": _sheet("NVIDIA L40S", 864, 91.6, 183, 362, 733),
    "sm_90a": _sheet("NVIDIA H100 SXM", 3350, 67, 494.5, 989.5, 1979),
    "sm_100a": _sheet("NVIDIA B200", 7700, 75, 1100, 2250, 4500),
}
