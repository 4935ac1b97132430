"""Schedules of contractions: parallel blocks, then tiles of rows that fit the registers.

    linalg.generic {(m, panel, lane, k)} ; linalg.generic {(m, panel, lane)}
    // -->
    scf.forall (block of m, block of panels)
      scf.for panel, then rows of m            // a panel of the weight stays in the cache over all rows
        both generics on [rows, 1, lane]       // a register tile
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from ...target import Target
from .tiles import Extents, Schedule, best_rows, schedule_groups

# Work that is worth a parallel block of its own: 4 Mflop are about 20 us on one core.
_BLOCK_FLOPS = 4_000_000

# The rows of the left operand that one block reads should stay in half of a second-level cache.
_BLOCK_BYTES = 512 * 1024


def contraction(kernel: ir.Operation, target: Target) -> Schedule:
    """The schedule of a contraction kernel: `rows` and `blocks` per column group."""
    return schedule_groups("contraction", kernel, target, _tile_rows, _blocks)


def _tile_rows(extents: Extents, target: Target) -> list[int]:
    """One row of the tile runs along the last outer dimension; the others are walked one by one."""
    if not extents.outer:
        return []
    return [*[1] * (len(extents.outer) - 1), best_rows(extents.outer[-1], extents, target)]


def _blocks(extents: Extents, rows: Sequence[int]) -> list[int]:
    """Parallel blocks (outer.., panels) of enough work each; few enough rows that they stay in the cache."""
    if not extents.outer:
        return [_divisor(extents.panels, _BLOCK_FLOPS // max(1, extents.flops // extents.panels))]
    step = rows[-1]
    steps = -(-extents.outer[-1] // step)
    cached = max(1, _BLOCK_BYTES // (extents.element_bytes * math.prod(extents.reduction) * step))
    blocks = -(-steps // cached)
    row_block = min(extents.outer[-1], step * -(-steps // blocks))
    batches = math.prod(extents.outer[:-1])
    panel_flops = extents.flops // (extents.panels * batches) * row_block // extents.outer[-1]
    panels = _divisor(extents.panels, max(1, _BLOCK_FLOPS // max(1, panel_flops)))
    return [*[1] * (len(extents.outer) - 1), row_block, panels]


def _divisor(number: int, limit: int) -> int:
    """The greatest divisor of `number` that is at most `limit` (at least 1)."""
    return max(divisor for divisor in range(1, min(number, max(1, limit)) + 1) if number % divisor == 0)
