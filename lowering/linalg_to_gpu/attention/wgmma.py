"""The sizes of tiles of attention on Hopper's warp groups (groups.py), and what they take of a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass

from ...target import Capability
from ..bulk_copies import BARRIER_BYTES
from ..contraction.boxes import box_of
from ..launch import Launch
from ..ring import Ring
from ..warp_groups import ALIGNMENT, GROUP
from .fragments import DEPTH
from .groups import BYTES, GROUP_ROWS, PANEL, WarpGroups, operands, whole
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
    """

    down: int
    keys: int
    stages: int

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
        return ALIGNMENT + tiles + 2 * Ring.barrier_bytes(self.stages) + BARRIER_BYTES

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
        rows = -(-attention.sizes["q"] // self.rows)
        waves = -(-rows * attention.heads * attention.sizes["g"] // capability.multiprocessors)
        return waves * (_BLOCK_COST + self.down)

    def block(self, attention: Attention, launch: Launch) -> WarpGroups:
        """What writes the kernel."""
        return WarpGroups(attention, (self.down, self.keys, self.stages), launch)
