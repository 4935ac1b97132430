"""NVIDIA GPUs as targets, reduced to the few numbers that schedules need."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

from ...lowering.target import Target
from ...lowering.target_names import TargetError, split_precision

_TRIPLE = "nvptx64-nvidia-cuda"
_ACCESS_BYTES, _THREAD_REGISTERS = 16, 255


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
        registers: number of 32-bit registers of a multiprocessor.
    """

    sm: int
    is_specific: bool
    shared_bytes: int
    multiprocessor_shared_bytes: int
    multiprocessor_threads: int
    multiprocessors: int
    registers: int = 65536

    @property
    def has_wgmma(self) -> bool:
        """True if warp groups multiply matrices in shared memory by `wgmma`."""
        return self.sm == 90 and self.is_specific

    @property
    def has_tensor_copies(self) -> bool:
        """True if the copy engine moves boxes of tensors (TMA), and blocks form clusters."""
        return self.sm >= 90

    @property
    def has_float8(self) -> bool:
        """True if tensor cores multiply 8-bit floats."""
        return self.sm >= 89


# From the CUDA programming guide's table of compute capabilities; multiprocessors of A100, A10, L40, H100/H200, B200.
_CAPABILITIES = {
    "sm_80": Capability(80, False, 163 * 1024, 164 * 1024, 2048, 108),
    "sm_86": Capability(86, False, 99 * 1024, 100 * 1024, 1536, 72),
    "sm_89": Capability(89, False, 99 * 1024, 100 * 1024, 1536, 142),
    "sm_90a": Capability(90, True, 227 * 1024, 228 * 1024, 2048, 132),
    "sm_100a": Capability(100, True, 227 * 1024, 228 * 1024, 2048, 148),
}
GPUS = tuple(_CAPABILITIES)
# The oldest versions of PTX that support these architectures: any driver that supports the device reads them.
_PTX = {"sm_80": "+ptx80", "sm_86": "+ptx80", "sm_89": "+ptx80", "sm_90a": "+ptx80", "sm_100a": "+ptx86"}


@dataclass(frozen=True, kw_only=True)
class GpuTarget(Target):
    """An NVIDIA GPU to generate code for.

    `vector_bytes` is the width of a thread's widest memory access, `vector_registers` the number of 32-bit registers
    per thread.

    Attributes:
        capability: capabilities of the GPU.
    """

    device: ClassVar[str] = "cuda"

    capability: Capability

    @staticmethod
    @functools.cache
    def parse(text: str) -> GpuTarget:
        """Returns a GPU by its name, such as "cuda:sm_80"; a precision may follow, as in "cuda:sm_80+tf32".

        Raises:
            TargetError: there is no such GPU.
        """
        machine, precision = split_precision(text)
        family, _, name = machine.partition(":")
        if family != "cuda" or name not in _CAPABILITIES:
            raise TargetError(f"unknown target '{machine}'; known are {', '.join(f'cuda:{gpu}' for gpu in GPUS)}")
        return GpuTarget(
            triple=_TRIPLE,
            cpu=name,
            features=(_PTX[name],),
            vector_bytes=_ACCESS_BYTES,
            vector_registers=_THREAD_REGISTERS,
            precision=precision,
            capability=_CAPABILITIES[name],
        )
