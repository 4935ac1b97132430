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
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlir import ir

from ....dialects import discardable
from ....machines import caches
from ....machines.matrix_units import GRAIN_BYTES, LINE_BYTES, ROWS, choose_tile, divisor, fits
from ....machines.paces import paces_of
from ....machines.tiles import panels_together, waiting_cycles
from ....passes.ir.rewriting import walk
from ...target import Target
from ..byte_products import BRAIN_METHOD
from ..matrix_tiles import MATRIX_METHOD
from .base import Schedule
from .tile_script import make_schedule
from .tiles import (
    ColumnGroupExtents,
    Extents,
    cut_rows,
    groups_of,
    most_rows,
    registers_per_row,
    tile_step_cycles,
    wanted_blocks,
    whole_tiles,
)
from .typical import count_tiles, tiles_in

# Weights from the second-level cache or beyond: minimum number of rows per block, and approximate number of blocks.
# Half the minimum is enough for an odd number of panels up to _MANY_PANELS, which cannot be distributed evenly.
_LEAST_ROWS, _BLOCKS_OF_WEIGHTS, _MANY_PANELS = 40, 16, 8

# Minimum number of blocks, reached by cutting panels if rows are few at some sizes.
_FEWEST_BLOCKS = 8

# Minimum number of tiles in a block: a single tile prefetches only what it uses at once, so the next block waits again.
_LEAST_TILES = 2

# Tiles that are slower by at most this factor count as equal if sizes vary, as only likely sizes are known.
_NEAR = 1.06


_PAIR, _ONE_BY_ONE = 2, "bytes"
"""Numbers of bfloat16 in a grain, and the method for machines without an instruction for them."""


def contraction(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a contraction or convolution kernel.

    Its parameters per column group are the sizes of a register tile and of a parallel block, one per outer
    dimension, and for the block one more for the panels.
    """
    groups = groups_of(kernel, target.machine)
    plans = [_plan(group.extents, wanted_blocks(group.extents, kernel)) for group in groups]
    tiles, blocks = [tile for tile, _ in plans], [block for _, block in plans]
    panels = [_panels(group.extents, tile) for group, tile in zip(groups, tiles, strict=True)]
    blocks = [
        [*rows, width * divisor(group.extents.panels // width, part // width)]
        for group, width, (*rows, part) in zip(groups, panels, blocks, strict=True)
    ]
    lanes = [_lanes(group.extents) for group in groups]
    ahead = target.vector_bytes // 4 if target.multiplies_by_lane else 1
    schedule = make_schedule(
        "contraction",
        kernel,
        groups,
        tiles,
        blocks,
        is_panel_outermost=is_panel_outermost,
        panels=panels,
        ahead=ahead,
        lanes=lanes if any(lane < group.extents.lane for group, lane in zip(groups, lanes, strict=True)) else (),
    )
    if not any(discardable.GRAIN.is_on(op) or discardable.BLOCK_BITS.is_on(op) for op in walk(kernel)):
        return schedule
    has_tiles = all(group.extents.grains for group in groups) and _fit_unit(groups, schedule.parameters)
    is_float = any(discardable.GRAIN.read(op, 0) == _PAIR for op in walk(kernel))
    in_vectors = (BRAIN_METHOD if target.machine.brain_rate else _ONE_BY_ONE) if is_float else target.bytes_method
    has_block_tiles = all(group.extents.block and group.extents.block.in_tiles for group in groups)
    method = MATRIX_METHOD if has_tiles or has_block_tiles else in_vectors
    return replace(schedule, parameters={"bytes_method": method, **schedule.parameters})


def _fit_unit(groups: Sequence[ColumnGroupExtents], parameters: Mapping[str, Any]) -> bool:
    """Returns whether the tiles of a schedule, which may be given, fit the registers of a matrix unit."""
    lanes = parameters.get("lanes", [group.extents.lane for group in groups])
    panels = parameters.get("panels", [1] * len(groups))
    return all(
        fits(math.prod(tile) // tile[last] * -(-tile[last] // ROWS), width * -(-lane // (LINE_BYTES // GRAIN_BYTES)))
        for last, tile, lane, width in zip(
            (group.extents.rows[-1] for group in groups), parameters["tiles"], lanes, panels, strict=True
        )
    )


def _lanes(extents: Extents) -> int:
    """Returns the columns of a tile: of a matrix unit, as many as are fastest."""
    if not extents.grains:
        return extents.lane
    return choose_tile([extents.outer[dim] for dim in extents.rows[-2:]], extents.lane, extents.grains)[1]


def _panels(extents: Extents, tile: Sequence[int]) -> int:
    """Returns the number of panels of a register tile."""
    if extents.block is not None or extents.grains:
        return 1
    return panels_together(extents.machine, math.prod(tile), registers_per_row(extents), extents.panels)


def is_panel_outermost(extents: Extents) -> bool:
    """Returns whether all rows of a block work on one panel before the next.

    If the weight stays in the cache anyway and the result comes from and goes to memory, a tile's rows work on all
    panels instead, and the result is accessed row by row. So they do if a matrix unit multiplies: it reads the weight
    in order then, faster than rows of the input.
    """
    if extents.packs:
        return True
    if extents.grains and extents.weights * extents.weight_bytes <= caches.cached_bytes(extents.machine):
        return False
    positions = math.prod(extents.outer)
    if extents.typical:
        most = math.prod(extents.outer[dim] for dim in extents.rows[-2:])
        positions = positions // most * int(statistics.median(map(math.prod, extents.typical)))
    result_bytes = extents.element_bytes * positions * extents.panels * extents.lane
    return _is_far(extents) or result_bytes < caches.cached_bytes(extents.machine)


def _is_far(extents: Extents) -> bool:
    """Returns whether the weights do not stay in the second-level cache beside other data."""
    return extents.weights * extents.weight_bytes > caches.weight_bytes(extents.machine)


def _plan(extents: Extents, parts: int) -> tuple[list[int], list[int]]:
    """Returns the fastest combination of register tile and parallel block, with about `parts` blocks in all."""
    if not is_panel_outermost(extents):
        block = [size if dim in extents.rows[-2:] else 1 for dim, size in enumerate(extents.outer)]
        _, tile = _tile(extents, [extents.outer[dim] for dim in extents.rows[-2:]])
        rows = block if parts == 1 else cut_rows(extents, tile, block, parts)
        # Few rows of a matrix unit leave blocks for other threads only if panels are divided.
        panels = _part_of_panels(extents, rows, parts) if extents.grains else extents.panels
        return tile, [*whole_tiles(extents, tile, rows), panels]
    if extents.packs:
        return _packing_plan(extents, parts)
    plans = [_plan_of(extents, count) for count in _block_counts(extents)]
    _, tile, block = min(plans, key=lambda plan: (not _is_chosen(extents, plan[1]), plan[0]))
    return tile, _cut(extents, tile, block, parts)


def _is_chosen(extents: Extents, tile: Sequence[int]) -> bool:
    """Returns whether a tile is the one that was chosen before; blocks of too few rows do not hold it."""
    return [tile[dim] for dim in extents.rows[-2:]] == list(extents.tile[-len(extents.rows[-2:]) :])


def _packing_plan(extents: Extents, parts: int) -> tuple[list[int], list[int]]:
    """Returns the tile and the block of a kernel that packs panels.

    A block has all rows, and packs panels once, unless its rows for a matrix unit would not stay in the cache.
    """
    _, tile = _tile(extents, [extents.outer[dim] for dim in extents.rows[-2:]])
    rows = [size if dim in extents.rows else 1 for dim, size in enumerate(extents.outer)]
    row_bytes = extents.element_bytes * math.prod(extents.reduction)
    if (extents.grains or extents.block) and row_bytes * math.prod(rows) > (
        most := caches.cached_bytes(extents.machine)
    ):
        rows = whole_tiles(extents, tile, cut_rows(extents, tile, rows, -(-row_bytes * math.prod(rows) // most)))
    return tile, [*rows, _part_of_panels(extents, rows, parts)]


def _cut(extents: Extents, tile: Sequence[int], block: Sequence[int], parts: int) -> list[int]:
    """Returns the parallel block: rows cut as in the kernels before and after, and panels.

    Weights that do not stay in the first-level cache are read for enough rows at a time to hide the reading.
    """
    if parts == 1:
        return [*whole_tiles(extents, tile, block), extents.panels]
    positions = math.prod(extents.outer[dim] for dim in extents.rows[-2:])
    there = extents.panels * math.prod(extents.outer) // positions
    # If weights are streamed, one block per weight is enough: each weight is read once for all its rows.
    most = max(1, parts // extents.weights) if _is_far(extents) else parts
    if extents.weight_bytes > caches.near_bytes(extents.machine):
        is_even = extents.panels % 2 == 0 or extents.panels > _MANY_PANELS
        least = _LEAST_ROWS if is_even else _LEAST_ROWS // 2
        most = max(1, min(most, -(-_BLOCKS_OF_WEIGHTS // there), positions // least))
    rows = cut_rows(extents, tile, block, most, there)
    panels = _part_of_panels(extents, rows, parts)
    if extents.typical and _is_far(extents):
        # Even with the fewest rows there must be enough blocks for several threads.
        fewest = _blocks_of_rows(extents, rows)
        panels = min(panels, divisor(extents.panels, fewest * extents.panels // _FEWEST_BLOCKS))
    return [*whole_tiles(extents, tile, _fewer(extents, tile, rows)), panels]


def _part_of_panels(extents: Extents, rows: Sequence[int], parts: int) -> int:
    """Returns the panels of a block of these rows, such that there are about `parts` blocks in all."""
    there = math.prod(-(-size // part) for size, part in zip(extents.outer, rows, strict=True))
    return divisor(extents.panels, there * extents.panels // parts)


def _blocks_of_rows(extents: Extents, rows: Sequence[int]) -> int:
    """Returns the minimum number of blocks of rows if the number of rows varies."""
    steps = [rows[dim] for dim in extents.rows[-2:]]
    counts = [[-(-size // step) for size, step in zip(sizes, steps, strict=True)] for sizes in extents.typical]
    return min(map(math.prod, counts))


def _fewer(extents: Extents, tile: Sequence[int], rows: Sequence[int]) -> list[int]:
    """Reduces blocks to about the minimum number of rows if the number of rows varies.

    A tile fetches its share of the next weights, so all tiles of a block should be present. The blocks of one panel
    follow each other, as all rows stay in the cache: only the first of them waits for the panel.
    """
    if not extents.typical or not extents.is_panel_major:
        return list(rows)
    dim = extents.rows[-1]
    least, count = min(sizes[-1] for sizes in extents.typical), rows[dim] // tile[dim]
    if count < _LEAST_TILES or rows[dim] % tile[dim]:
        return list(rows)
    wanted = max(_LEAST_TILES, -(-least // tile[dim]))
    counts = [item for item in range(_LEAST_TILES, count + 1) if count % item == 0]
    kept = min(counts, key=lambda item: abs(item - wanted))
    return [kept * tile[dim] if axis == dim else part for axis, part in enumerate(rows)]


def _block_counts(extents: Extents) -> range:
    """Returns the useful numbers of blocks of rows, such that the rows of a block fit the cache."""
    inner = [extents.outer[dim] for dim in extents.rows[-2:]]
    if not inner:
        return range(1, 2)
    row_bytes = extents.element_bytes * extents.reduction[-1]
    least = max(1, -(-row_bytes * math.prod(inner) // caches.cached_bytes(extents.machine)))
    return range(min(least, max(inner)), min(2 * least, max(inner)) + 1)


def _plan_of(extents: Extents, count: int) -> tuple[float, list[int], list[int]]:
    """Returns the cycles with `count` blocks of rows, the tile and the block."""
    block, inner = [1] * len(extents.outer), extents.rows[-2:]
    cut = next((dim for dim in inner if extents.outer[dim] > 1), None)
    for dim in inner:
        block[dim] = -(-extents.outer[dim] // (count if dim == cut else 1))
    cycles, tile = _tile(extents, [block[dim] for dim in inner])
    blocks = 1 if cut is None else -(-extents.outer[cut] // block[cut])
    stream = extents.weight_bytes / paces_of(extents.machine).stream_bytes
    return blocks * (extents.panels * cycles + stream), tile, block


def _tile(extents: Extents, sizes: Sequence[int]) -> tuple[float, list[int]]:
    """Returns the cycles of a panel in a block and the fastest tile; overhanging tiles cost as much as whole ones.

    Args:
        extents: the iteration space.
        sizes: the block's extents along the last two row dimensions.
    """
    if extents.grains:
        return _matrix_tile(extents, sizes)
    machine, vectors, limit = extents.machine, registers_per_row(extents), most_rows(extents)
    depth = math.prod(extents.reduction)
    panel_bytes = extents.element_bytes * depth * extents.lane
    streamed = vectors if panel_bytes > caches.near_bytes(machine) else 0
    whole_bytes = panel_bytes if extents.packs else extents.weights * extents.weight_bytes
    waits = waiting_cycles(machine, whole_bytes, panel_bytes / depth)

    def cycles(shape: tuple[int, ...]) -> tuple[float, int]:
        step = tile_step_cycles(extents, math.prod(shape), streamed)
        count = count_tiles(extents.typical, sizes, shape, limit, waits / step)
        return count * depth * step, -math.prod(shape[-1:])

    steps = [range(1, min(size, limit) + 1) for size in sizes]
    shapes = [shape for shape in itertools.product(*steps) if math.prod(shape) <= limit]
    best = min(shapes, key=cycles)
    if extents.tile[-len(sizes) :] in shapes and math.prod(extents.tile[: -len(sizes)]) == 1:
        best = extents.tile[-len(sizes) :]
    elif extents.typical:
        # Prefers, among about equal tiles, large ones that read neighbours and divide the greatest size: other sizes
        # than the typical ones are as likely, and each tile reads its panel again.
        most = _NEAR * cycles(best)[0]
        near = [shape for shape in shapes if cycles(shape)[0] <= most]
        best = min(near, key=lambda shape: (math.prod(shape[:-1]), sizes[-1] % shape[-1] != 0, -shape[-1]))
    tile = [1] * len(extents.outer)
    for dim, step in zip(extents.rows[-2:], best, strict=True):
        tile[dim] = step
    per_tile = depth * tile_step_cycles(extents, math.prod(best), streamed)
    return tiles_in(sizes, sizes, best) * per_tile, tile


def _matrix_tile(extents: Extents, sizes: Sequence[int]) -> tuple[float, list[int]]:
    """Returns the cycles of a panel in a block and the fastest tile of a matrix unit, as `_tile`."""
    shape, _ = choose_tile(sizes, extents.lane, extents.grains)
    tile = [1] * len(extents.outer)
    for dim, step in zip(extents.rows[-2:], shape, strict=True):
        tile[dim] = step
    per_tile = math.prod(extents.reduction) * tile_step_cycles(extents, math.prod(shape), 0)
    return tiles_in(sizes, sizes, shape) * per_tile, tile
