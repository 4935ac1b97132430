"""Capabilities of NVIDIA GPUs, by architecture; needs no MLIR."""

from __future__ import annotations

from dataclasses import dataclass


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
CAPABILITIES = {
    "sm_80": Capability(80, False, 163 * 1024, 164 * 1024, 2048, 108),
    "sm_86": Capability(86, False, 99 * 1024, 100 * 1024, 1536, 72),
    "sm_89": Capability(89, False, 99 * 1024, 100 * 1024, 1536, 142),
    "sm_90a": Capability(90, True, 227 * 1024, 228 * 1024, 2048, 132),
    "sm_100a": Capability(100, True, 227 * 1024, 228 * 1024, 2048, 148),
}
GPUS = tuple(CAPABILITIES)
