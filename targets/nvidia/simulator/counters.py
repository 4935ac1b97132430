"""Counters of costs: shared-memory passes, global-memory sectors, and instructions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ....machines.gpus import BANK_BYTES, BANKS, SECTOR_BYTES, WARP
from .kernel import PreparedKernel
from .kinds import Array
from .memory import MemoryAccess, Space


@dataclass
class Traffic:
    """Cost of the accesses by one instruction.

    Attributes:
        instruction: name of the instruction.
        width: bytes per thread and access.
        requests: number of warp-level accesses.
        spent: passes through the banks of shared memory, or sectors of global memory.
        needed: number of passes without conflicts, or of sectors if every byte of them were used.
    """

    instruction: str
    width: int
    requests: int = 0
    spent: int = 0
    needed: int = 0

    @property
    def conflicts(self) -> int:
        """Number of avoidable passes or sectors."""
        return self.spent - self.needed


class Counters:
    """Observer that counts the traffic of a launch.

    Attributes:
        shared: traffic of shared memory by PTX line.
        memory: traffic of global memory by PTX line.
    """

    def __init__(self) -> None:
        self.shared: dict[int, Traffic] = {}
        self.memory: dict[int, Traffic] = {}

    def accessed(self, memory: Space, offsets: Array, width: int, access: MemoryAccess) -> None:
        """Records an access of `width` bytes per thread."""
        if memory.name not in ("shared", "global"):
            return
        found = self.shared if memory.name == "shared" else self.memory
        traffic = found.setdefault(access.line, Traffic(access.what, width))
        warps = access.threads // WARP
        traffic.requests += len(np.unique(warps))
        if memory.name == "shared":
            spent, needed = _passes(offsets, width, access.threads)
        else:
            spent, needed = _sectors(offsets, width, warps)
        traffic.spent += spent
        traffic.needed += needed


def _passes(offsets: Array, width: int, threads: Array) -> tuple[int, int]:
    """Returns the passes through the banks, and the passes that the same threads need without conflicts.

    A pass serves as many lanes as fill all banks. It transfers one word per bank; lanes that access the same word share
    it.
    """
    together = threads // min(WARP, BANKS * BANK_BYTES // width)
    words = offsets[:, None] // BANK_BYTES + np.arange(max(width // BANK_BYTES, 1))
    pairs = np.stack([np.broadcast_to(together[:, None], words.shape).ravel(), words.ravel()])
    distinct = np.unique(pairs, axis=1)
    _, counts = np.unique(distinct[0] * BANKS + distinct[1] % BANKS, return_counts=True)
    banks = np.unique(distinct[0] * BANKS + distinct[1] % BANKS)
    groups, rows = np.unique(banks // BANKS, return_inverse=True)
    most = np.zeros(len(groups), np.int64)
    np.maximum.at(most, rows, counts)
    return int(most.sum()), len(groups)


def _sectors(offsets: Array, width: int, warps: Array) -> tuple[int, int]:
    """Returns the sectors that warps access, and the sectors that their bytes would fill."""
    steps = np.arange(0, max(width, SECTOR_BYTES), SECTOR_BYTES)
    steps = steps[steps < width]
    touched = (offsets[:, None] + steps) // SECTOR_BYTES
    pairs = np.stack([np.broadcast_to(warps[:, None], touched.shape).ravel(), touched.ravel()])
    spent = np.unique(pairs, axis=1).shape[1]
    distinct = np.unique(np.stack([warps, offsets]), axis=1)
    _, lanes = np.unique(distinct[0], return_counts=True)
    return spent, int((-(-lanes * width // SECTOR_BYTES)).sum())


def instructions(kernel: PreparedKernel) -> Counter[str]:
    """Returns how many warps have executed each instruction, by its name, in all launches so far."""
    counts: Counter[str] = Counter()
    for code in kernel.codes:
        for part in code.parts:
            for instruction in part.instructions:
                counts[instruction.name] += part.threads // WARP
    return +counts
