"""Parameters of a contraction's kernel: tiles of blocks and warps, and stages."""

from __future__ import annotations

from dataclasses import dataclass

from .....machines.gpus import WARP


@dataclass(frozen=True)
class Tiling:
    """Tile sizes of a contraction.

    Attributes:
        method: instructions of the products: `fma` (exact float32, per thread), `mma` (tensor cores, per warp), `wgmma`
            (tensor cores, per group of four warps, fed by TMA).
        rows: rows of the result per block.
        columns: columns of the result per block.
        depth: depth per stage of shared memory.
        warp_rows: rows of the result per warp (wgmma: per warp group).
        warp_columns: columns of the result per warp (wgmma: per warp group).
        stages: number of stages between global memory and the multipliers.
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
        """Number of multiplying warps (wgmma: warp groups)."""
        return (self.rows // self.warp_rows) * (self.columns // self.warp_columns)

    @property
    def threads(self) -> int:
        """Threads per block."""
        if self.method == "wgmma":
            return (self.warps + 1) * 4 * WARP
        return self.warps * WARP

    def stage_bytes(self, element_bytes: int) -> int:
        """Returns the shared memory of a stage in bytes."""
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
        """Number of floating-point operations."""
        return 2 * self.batch * self.rows * self.columns * self.depth


@dataclass(frozen=True)
class CopyUnit:
    """Unit of a thread's copies of an operand.

    Attributes:
        width: number of elements.
        registers: registers that a unit occupies until it is in shared memory.
    """

    width: int
    registers: int
