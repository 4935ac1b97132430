"""Tile sizes of attention on Hopper's warp groups (groups.py), and the resources that they need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .....machines.gpus import Capability
from ...emission.launch import LaunchContext
from ...instructions.ring import Ring
from ...instructions.warp_groups import ALIGNMENT, GROUP
from ..contraction.boxes import box_of
from .boxed import BYTES, GROUP_ROWS, PANEL, operands, whole
from .fragments import DEPTH
from .groups import WarpGroups
from .problem import Attention

# Registers per thread that ptxas can allocate without spilling, by the number of groups that share them.
_MOST_HELD = {1: 200, 2: 200, 3: 128}
# Fixed cost of a block, relative to the time of 64 rows.
_BLOCK_COST = 2


@dataclass(frozen=True)
class WgmmaTiles:
    """Tile sizes of a block.

    Attributes:
        down: multiplying warp groups, of 64 rows each.
        keys: keys per tile; a multiple of 64.
        stages: tiles of keys, and of values, in shared memory.
        blocks: number of persistent blocks that loop over all rows; 0 for one block per row tile.
    """

    down: int
    keys: int
    stages: int
    blocks: int = 0

    @property
    def rows(self) -> int:
        """Rows per block."""
        return GROUP_ROWS * self.down

    @property
    def threads(self) -> int:
        """Threads per block."""
        return GROUP * (self.down + 1)

    def shared_bytes(self, attention: Attention) -> int:
        """Returns the shared memory of a block in bytes."""
        depth, width = (whole(attention.sizes[name], PANEL) * BYTES for name in "dv")
        tiles = self.rows * depth + self.stages * self.keys * (depth + width)
        return ALIGNMENT + tiles + 2 * Ring.barrier_bytes(self.stages) + Ring.barrier_bytes(1)

    def fits_registers(self, attention: Attention) -> bool:
        """Returns whether a thread has registers for its sums, its scores, and the weights of the product under way."""
        return (whole(attention.sizes["v"], DEPTH) + self.keys) // 2 + self.keys // 4 <= _MOST_HELD[self.down]

    def suits(self, attention: Attention) -> bool:
        """Returns whether the copy engine can copy the operands, and the keys fill more than half of a tile."""
        described = operands(attention, self.rows, self.keys)
        by_boxes = all(box_of(access, rows, depth) for _, access, rows, depth in described)
        return by_boxes and attention.sizes["k"] > self.keys // 2

    def cost(self, attention: Attention, capability: Capability) -> float:
        """Returns the relative run time: blocks run in waves, one per multiprocessor at a time."""
        waves = -(-self._row_blocks(attention) // capability.multiprocessors)
        return waves * (_BLOCK_COST + self.down)

    def spread(self, attention: Attention, capability: Capability) -> WgmmaTiles:
        """Returns the sizes with one persistent block per multiprocessor, so that copies overlap with stores.

        Rows with a band attend to different numbers of keys; their blocks are left to the GPU's scheduler.
        """
        is_even = attention.band is None and self._row_blocks(attention) > capability.multiprocessors
        return replace(self, blocks=capability.multiprocessors if is_even else 0)

    def _row_blocks(self, attention: Attention) -> int:
        sizes = attention.sizes
        return -(-sizes["q"] // self.rows) * attention.heads * sizes["g"] * sizes["p"]

    def block(self, attention: Attention, launch: LaunchContext) -> WarpGroups:
        """Returns the emitter of the kernel."""
        return WarpGroups(attention, (self.down, self.keys, self.stages, self.blocks), launch)
