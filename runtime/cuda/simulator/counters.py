"""Counts what costs time: passes through the banks of shared memory, sectors of global memory, instructions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from .batch import WARP
from .kernel import Kernel
from .kinds import Array
from .memory import Access, Space

_BANKS, _WORD, _SECTOR = 32, 4, 32


@dataclass
class Traffic:
    """What the accesses by one instruction have cost.

    Attributes:
        instruction: its name.
        width: bytes that a thread accesses at once.
        requests: how many warps have made it.
        spent: passes through the banks of shared memory, or sectors of global memory.
        needed: how many there would be without conflicts, or if every byte of a sector were used.
    """

    instruction: str
    width: int
    requests: int = 0
    spent: int = 0
    needed: int = 0

    @property
    def conflicts(self) -> int:
        """What was spent and not needed."""
        return self.spent - self.needed


class Counters:
    """An observer of a launch.

    Attributes:
        shared: traffic of shared memory by PTX line.
        memory: traffic of global memory by PTX line.
    """

    def __init__(self) -> None:
        self.shared: dict[int, Traffic] = {}
        self.memory: dict[int, Traffic] = {}

    def accessed(self, memory: Space, offsets: Array, width: int, access: Access) -> None:
        """Threads access so many bytes each."""
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
    """Passes through the banks, and how many the same threads would need without conflicts.

    So many lanes pass at once as would fill all banks; one pass takes one word of every bank, and lanes that want the
    same word share it.
    """
    together = threads // min(WARP, _BANKS * _WORD // width)
    words = offsets[:, None] // _WORD + np.arange(max(width // _WORD, 1))
    pairs = np.stack([np.broadcast_to(together[:, None], words.shape).ravel(), words.ravel()])
    distinct = np.unique(pairs, axis=1)
    _, counts = np.unique(distinct[0] * _BANKS + distinct[1] % _BANKS, return_counts=True)
    banks = np.unique(distinct[0] * _BANKS + distinct[1] % _BANKS)
    groups, rows = np.unique(banks // _BANKS, return_inverse=True)
    most = np.zeros(len(groups), np.int64)
    np.maximum.at(most, rows, counts)
    return int(most.sum()), len(groups)


def _sectors(offsets: Array, width: int, warps: Array) -> tuple[int, int]:
    """Sectors that warps touch, and how many their bytes would fill."""
    steps = np.arange(0, max(width, _SECTOR), _SECTOR)
    steps = steps[steps < width]
    touched = (offsets[:, None] + steps) // _SECTOR
    pairs = np.stack([np.broadcast_to(warps[:, None], touched.shape).ravel(), touched.ravel()])
    spent = np.unique(pairs, axis=1).shape[1]
    distinct = np.unique(np.stack([warps, offsets]), axis=1)
    _, lanes = np.unique(distinct[0], return_counts=True)
    return spent, int((-(-lanes * width // _SECTOR)).sum())


def instructions(kernel: Kernel) -> Counter[str]:
    """How many warps have run each kind of instruction, by its name, in all launches so far."""
    counts: Counter[str] = Counter()
    for code in kernel.codes:
        for part in code.parts:
            for instruction in part.instructions:
                counts[instruction.name] += part.threads // WARP
    return +counts
