"""The numbers that shape a contraction's kernel: tiles of blocks and warps, stages."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class Tiling:
    """How a contraction is cut up.

    Attributes:
        method: what multiplies: `fma` (exact float32, one thread at a time), `mma` (a warp's tensor cores),
            `wgmma` (those of four warps, fed by TMA).
        rows: of the result, that a block computes.
        columns: likewise.
        depth: how much of the sum one stage of shared memory holds.
        warp_rows: of the result, that a warp computes (wgmma: a warp group).
        warp_columns: likewise.
        stages: how many tiles are under way between global memory and the multipliers.
    """

    method: str
    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int
    stages: int

    @property
    def warps(self) -> int:
        """Warps that multiply (wgmma: warp groups)."""
        return (self.rows // self.warp_rows) * (self.columns // self.warp_columns)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        if self.method == "wgmma":
            return (self.warps + 1) * 4 * WARP
        return self.warps * WARP

    def stage_bytes(self, element_bytes: int) -> int:
        """Shared memory of a stage."""
        return (self.rows + self.columns) * self.depth * element_bytes


@dataclass(frozen=True)
class Problem:
    """A contraction's sizes: result [batch, rows, columns], summed over `depth`."""

    batch: int
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return 2 * self.batch * self.rows * self.columns * self.depth


@dataclass(frozen=True)
class Piece:
    """What a thread copies of an operand at once.

    Attributes:
        width: its elements.
        registers: what it takes of a thread's registers until it is in shared memory.
    """

    width: int
    registers: int
