"""Schedules of depthwise convolutions: every channel by itself, so vectors run over channels and nothing is broadcast.

    linalg.generic {(row.., panel, lane, tap..)} ; linalg.generic {(row.., panel, lane)}
    // -->
    scf.forall (block of rows)
      scf.for rows, then panel                 // memory is read in order; the weight is small
        both generics on [rows.., 1, lane]     // a register tile, all taps unrolled
"""

from __future__ import annotations

import itertools
import math

from mlir import ir

from ...target import Target
from .tiles import Extents, Schedule, block_rows, groups_of, make_schedule, most_rows

# Up to 7x7 taps are unrolled: then neighbouring places share what they read.
_UNROLLED_TAPS = 49
_MAX_STEPS = 128


def depthwise(kernel: ir.Operation, target: Target) -> Schedule:
    """The schedule of a depthwise convolution; its parameters are those of `contraction` and `unroll`."""
    groups = groups_of(kernel)
    tiles = [_tile(group.extents, target) for group in groups]
    blocks = [
        [*block_rows(group.extents, tile, group.extents.element_bytes * group.extents.lane * group.extents.panels), group.extents.panels]
        for group, tile in zip(groups, tiles, strict=True)
    ]
    taps = max(math.prod(group.extents.reduction) for group in groups)
    unroll = taps if taps <= _UNROLLED_TAPS else 1
    return make_schedule("depthwise", kernel, groups, tiles, blocks, is_panel_outermost=False, unroll=unroll)


def _tile(extents: Extents, target: Target) -> list[int]:
    """The tile over the last two row dimensions with the least loads and multiply-adds in all."""
    inner = extents.rows[-2:]
    sizes, kernel = [extents.outer[dim] for dim in inner], extents.reduction[-len(inner) :]
    taps = math.prod(extents.reduction)
    limit = min(most_rows(extents, target), max(1, _MAX_STEPS // taps))

    def cycles(shape: tuple[int, ...]) -> tuple[float, int]:
        count = math.prod(-(-size // step) for size, step in zip(sizes, shape, strict=True))
        loads = math.prod(step + size - 1 for step, size in zip(shape, kernel, strict=True)) + taps
        return count * (max(math.prod(shape) * taps, loads) / 2 + math.prod(shape) + 6), -shape[-1]

    steps = [range(1, min(size, limit) + 1) for size in sizes]
    tile = [1] * len(extents.outer)
    best = min((shape for shape in itertools.product(*steps) if math.prod(shape) <= limit), key=cycles)
    for dim, step in zip(inner, best, strict=True):
        tile[dim] = step
    return tile
