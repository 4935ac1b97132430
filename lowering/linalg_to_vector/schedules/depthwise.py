"""Schedules of depthwise convolutions: channels are independent, so vectors run over channels without broadcasts.

linalg.generic {(row.., panel, lane, tap..)} ; linalg.generic {(row.., panel, lane)}
// -->
scf.forall (block of rows)
  scf.for rows, panel, then vector         // memory is read in order; the weight is small
    both generics on [rows.., 1, vector]   // a register tile, all taps unrolled
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from ....dialects import discardable
from ....machines import caches
from ....machines.machine import Machine
from ....machines.tiles import depthwise_cycles
from ....passes.ir.rewriting import walk
from ...target import Target
from .base import Schedule
from .tile_script import make_schedule
from .tiles import (
    Extents,
    cut_rows,
    groups_of,
    registers_per_row,
    rows_of_registers,
    wanted_blocks,
    whole_tiles,
)
from .typical import count_tiles

# Maximum number of unrolled taps along the innermost dimension, for which neighbouring positions share loads.
_UNROLLED_TAPS = 9
_UNROLLED_STEPS = 40
"""Maximum number of unrolled taps and channels of a feature group: a choice."""
_MOST_ROWS = 16
"""Maximum number of vectors of results in a tile: a choice that limits the code."""

# Number of registers that hold elements of the image in a tile of one vector.
_ELEMENTS = 2

# Registers counted per position, which limits the tiles of strided convolutions: with AVX2, six positions were fastest.
_STRIDED_VECTORS = 2


def depthwise(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a depthwise convolution.

    Its parameters are those of `contraction`, `unroll`, and per column group the `lanes`, the channels of a tile.
    """
    groups = groups_of(kernel, target.machine)
    tiles = [_tile(group.extents) for group in groups]
    blocks = [_block(group.extents, tile, kernel) for group, tile in zip(groups, tiles, strict=True)]
    unroll = max(_unrolled(group.extents) for group in groups)
    lanes = [_lanes(group.extents) for group in groups]
    schedule = make_schedule(
        "depthwise", kernel, groups, tiles, blocks, is_panel_outermost=lambda _: False, unroll=unroll, lanes=lanes
    )
    if not any(_reads_bytes(op) for op in walk(kernel)):
        return schedule
    return replace(schedule, parameters={"bytes_method": target.bytes_method, **schedule.parameters})


def _reads_bytes(op: ir.Operation) -> bool:
    """Returns whether an op is the sum of a convolution of bytes."""
    return discardable.CONTRACTION.is_on(op) and all(
        str(ir.RankedTensorType(value.type).element_type) == "i8" for value in list(op.operands)[:2]
    )


def _unrolled(extents: Extents) -> int:
    """Returns the number of unrolled steps.

    The last dimension is unrolled; with feature groups, the channels of a group as well, to spread what was read.
    """
    reduction = extents.reduction
    if extents.is_spread and math.prod(reduction[-2:]) <= _UNROLLED_STEPS:
        return math.prod(reduction[-2:])
    return reduction[-1] if reduction[-1] <= _UNROLLED_TAPS else 1


def _lanes(extents: Extents) -> int:
    lanes = extents.machine.lanes(extents.element_bytes)
    return extents.lane if extents.is_spread else tile_lanes(extents.lane, lanes)


def tile_lanes(width: int, lanes: int) -> int:
    """Returns the channels of a tile in a panel of `width`: one register of `lanes`; more share no loads."""
    return width if width % lanes else lanes


def _block(extents: Extents, tile: Sequence[int], kernel: ir.Operation) -> list[int]:
    """Returns a block of rows: enough blocks for the threads, and small enough to stay in the cache over all panels."""
    block = [size if dim in extents.rows[-2:] else 1 for dim, size in enumerate(extents.outer)]
    read = extents.element_bytes * extents.lane * extents.panels * math.prod(block)
    parts = max(wanted_blocks(extents, kernel), -(-read // caches.block_bytes(extents.machine)))
    return [*whole_tiles(extents, tile, cut_rows(extents, tile, block, parts)), extents.panels]


def _tile(extents: Extents) -> list[int]:
    """Returns the tile over the last two row dimensions with the fewest loads and multiply-adds in all."""
    inner = extents.rows[-2:]
    sizes = [extents.outer[dim] for dim in inner]
    machine, taps = extents.machine, extents.reduction[-1]
    vectors = registers_per_row(replace(extents, lane=_lanes(extents)))
    limit = most_positions(vectors, taps, extents.stride, machine)
    if extents.is_spread:  # beside the sums, registers hold the loaded elements and their spread copies
        limit = max(1, min(limit, (machine.vector_registers // vectors - 2 * taps) // (1 + 2 * extents.stride)))

    def cycles(shape: tuple[int, ...]) -> tuple[float, int]:
        count = count_tiles(extents.typical, sizes, shape, limit)
        return count * depthwise_cycles(machine, shape, extents.reduction, extents.stride, vectors), -shape[-1]

    steps = [range(1, min(size, limit) + 1) for size in sizes]
    tile = [1] * len(extents.outer)
    shapes = [shape for shape in itertools.product(*steps) if math.prod(shape) <= limit]
    best = extents.tile if extents.tile in shapes else min(shapes, key=cycles)
    for dim, step in zip(inner, best, strict=True):
        tile[dim] = step
    return tile


def most_positions(vectors: int, taps: int, stride: int, machine: Machine) -> int:
    """Returns the maximum number of positions in a tile, each of `vectors` vectors of channels.

    Beside the sums, registers hold the weights of a row of unrolled taps, and two elements: one in use, one that is
    being read. If they did not suffice, elements that neighbours share would be written to the stack. With strides,
    neighbours share few elements, and a large tile reads more lines at a time than hardware prefetchers follow.
    """
    if vectors > 1 or stride > 1:
        free = rows_of_registers(max(vectors, _STRIDED_VECTORS if stride > 1 else 1), machine)
    else:
        free = machine.vector_registers - (taps if taps <= _UNROLLED_TAPS else 1) - _ELEMENTS
    return max(1, min(free, _MOST_ROWS // vectors))
