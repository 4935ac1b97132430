"""The sizes of tiles of attention on Hopper's warp groups (groups.py), and what they take of a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...target import Capability
from ..contraction.boxes import box_of
from ..launch import Launch
from ..ring import Ring
from ..warp_groups import ALIGNMENT, GROUP
from .boxed import BYTES, GROUP_ROWS, PANEL, operands, whole
from .fragments import DEPTH
from .groups import WarpGroups
from .problem import Attention

# What ptxas manages to keep without spilling of a thread's registers, by the number of groups that share them.
_MOST_HELD = {1: 200, 2: 200, 3: 128}
# What a block takes besides its rows, in the time of 64 of them.
_BLOCK_COST = 2


@dataclass(frozen=True)
class WgmmaTiles:
    """The sizes of a block's tiles.

    Attributes:
        down: warp groups that multiply, of 64 rows each.
        keys: keys of a tile; a multiple of 64.
        stages: tiles of keys, and of values, in shared memory.
        blocks: how many blocks go through all rows; 0: each its own.
    """

    down: int
    keys: int
    stages: int
    blocks: int = 0

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return GROUP_ROWS * self.down

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return GROUP * (self.down + 1)

    def shared_bytes(self, attention: Attention) -> int:
        """The shared memory of a block."""
        depth, width = (whole(attention.sizes[name], PANEL) * BYTES for name in "dv")
        tiles = self.rows * depth + self.stages * self.keys * (depth + width)
        return ALIGNMENT + tiles + 2 * Ring.barrier_bytes(self.stages) + Ring.barrier_bytes(1)

    def fits_registers(self, attention: Attention) -> bool:
        """Whether a thread has registers for its sums, its scores, and the weights that are multiplied meanwhile."""
        return (whole(attention.sizes["v"], DEPTH) + self.keys) // 2 + self.keys // 4 <= _MOST_HELD[self.down]

    def suits(self, attention: Attention) -> bool:
        """Whether the copy engine can bring the operands, and a tile of keys is no larger than they are many."""
        described = operands(attention, self.rows, self.keys)
        by_boxes = all(box_of(access, rows, depth) for _, access, rows, depth in described)
        return by_boxes and attention.sizes["k"] > self.keys // 2

    def cost(self, attention: Attention, capability: Capability) -> float:
        """How long it takes, relatively: blocks come in waves, one on a multiprocessor at once."""
        waves = -(-self._row_blocks(attention) // capability.multiprocessors)
        return waves * (_BLOCK_COST + self.down)

    def spread(self, attention: Attention, capability: Capability) -> WgmmaTiles:
        """The same with as many blocks as multiprocessors, where rows of one copy while those of another are written.

        Rows that attend to fewer keys than others are left to the GPU to spread.
        """
        is_even = attention.band is None and self._row_blocks(attention) > capability.multiprocessors
        return replace(self, blocks=capability.multiprocessors if is_even else 0)

    def _row_blocks(self, attention: Attention) -> int:
        sizes = attention.sizes
        return -(-sizes["q"] // self.rows) * attention.heads * sizes["g"] * sizes["p"]

    def block(self, attention: Attention, launch: Launch) -> WarpGroups:
        """What writes the kernel."""
        return WarpGroups(attention, (self.down, self.keys, self.stages, self.blocks), launch)
