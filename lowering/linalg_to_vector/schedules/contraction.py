"""Schedules of contractions and convolutions: parallel blocks, then tiles of rows that fit the registers.

linalg.generic {(row.., panel, lane, k..)} ; linalg.generic {(row.., panel, lane)}
// -->
scf.forall (block of rows, block of panels)
  scf.for panel, then rows                 // a panel of the weight stays in the cache over all rows
    both generics on [rows.., 1, lane]     // a register tile
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mlir import ir

from ...target import Target
from .tiles import Extents, Schedule, block_rows, divisor, groups_of, make_schedule, most_rows, registers_per_row

# Work that is worth a parallel block of its own: 4 Mflop are about 20 us on one core.
_BLOCK_FLOPS = 4_000_000

# Above this a panel of the weight comes from the second-level cache at every tile.
_PANEL_BYTES = 32 * 1024


def contraction(kernel: ir.Operation, target: Target) -> Schedule:
    """The schedule of a contraction or convolution kernel.

    Its parameters per column group are the sizes of a register tile and of a parallel block, one per outer dimension,
    and for the block one more for the panels.
    """
    groups = groups_of(kernel)
    tiles = [_tile(group.extents, target) for group in groups]
    blocks = [_block(group.extents, tile) for group, tile in zip(groups, tiles, strict=True)]
    return make_schedule("contraction", kernel, groups, tiles, blocks, is_panel_outermost=True)


def _tile(extents: Extents, target: Target) -> list[int]:
    """The tile over the last two row dimensions that takes the least time; overhanging ones cost in full."""
    vectors, limit = registers_per_row(extents, target), most_rows(extents, target)
    tile = [1] * len(extents.outer)
    inner = extents.rows[-2:]
    sizes = [extents.outer[dim] for dim in inner]
    panel_bytes = extents.element_bytes * math.prod(extents.reduction) * extents.lane
    streamed = vectors if panel_bytes > _PANEL_BYTES else 0

    def cycles(shape: tuple[int, ...]) -> tuple[float, int]:
        count = math.prod(-(-size // step) for size, step in zip(sizes, shape, strict=True))
        return count * _step_cycles(math.prod(shape), vectors, streamed), -math.prod(shape[-1:])

    steps = [range(1, min(size, limit) + 1) for size in sizes]
    best = min((shape for shape in itertools.product(*steps) if math.prod(shape) <= limit), key=cycles)
    for dim, step in zip(inner, best, strict=True):
        tile[dim] = step
    return tile


def _step_cycles(rows: int, vectors: int, streamed: int) -> float:
    """Cycles of one reduction step: two multiply-adds and two loads per cycle, four cycles from one sum to the next."""
    return max(rows * vectors / 2, (rows + vectors + streamed) / 2, 4) + 0.4 + 0.3 * streamed


def _block(extents: Extents, tile: Sequence[int]) -> list[int]:
    """Blocks of enough work each, and of so few rows that what they read stays in the cache over all panels."""
    row_bytes = extents.element_bytes * extents.reduction[-1]
    block = block_rows(extents, tile, row_bytes)
    flops = extents.flops // extents.panels
    for size, part in zip(extents.outer, block, strict=True):
        flops = flops * part // size
    return [*block, divisor(extents.panels, _BLOCK_FLOPS // max(1, flops))]
