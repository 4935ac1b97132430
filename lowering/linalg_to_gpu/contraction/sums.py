"""Sums from the tensor cores' fragments to runs of neighbouring columns, through shared memory of the warp's own.

A fragment leaves a lane with two neighbours of a row: too narrow to write to memory. 16 rows of up to 64 columns are
written to shared memory as float32 and read back as 4 or 8 neighbours per lane, without bank conflicts both times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mlir import ir
from mlir.dialects import arith, vector

from ..instructions import sync_warp
from ..integers import Int
from ..memory import element_pointer, load, store
from .shared import CHUNK, SharedTile
from .tiles import WARP

ROWS = 16
_MOST_COLUMNS, _QUAD = 64, 4
Run = tuple[Int, Int, list[ir.Value]]
"""Row and first column in the warp's tile, and the sums of neighbouring columns from there on."""


def columns_at_once(columns: int) -> int:
    """How many of a warp's columns pass through shared memory at a time."""
    return min(columns, _MOST_COLUMNS)


def scratch_bytes(columns: int) -> int:
    """The shared memory that a warp needs."""
    return ROWS * columns_at_once(columns) * 4


def runs(
    pair: Callable[[int, int], list[ir.Value]], columns: int, shared: ir.Value, base: Int, lane: Int, width: int
) -> Iterator[Run]:
    """The sums of 16 rows.

    Args:
        pair: the two sums of the fragment's row lane / 4 + 8 * half at columns 8 * number + lane % 4 * 2 and the next,
            given number and half.
        columns: how many columns there are, a multiple of 16.
        shared: shared memory.
        base: where in it the warp's scratch begins.
        lane: the lane.
        width: 4 or 8, the length of the runs.
    """
    at_once = columns_at_once(columns)
    tile = SharedTile.crossed(ROWS, at_once * 4)
    for first in range(0, columns, at_once):
        sync_warp()
        for number in range(at_once // 8):
            for half in range(2):
                values = pair(first // 8 + number, half)
                kind = ir.VectorType.get([2], values[0].type)
                place = tile.element(lane // 4 + 8 * half, lane % 4 * 2 + 8 * number, 4)
                store(vector.from_elements(kind, values), _at(shared, base + place), 8)
        sync_warp()
        per_row = at_once // width
        for number in range(ROWS * per_row // WARP):
            row, run = divmod(lane + number * WARP, per_row)
            yield row, run * width + first, _read(tile, shared, base, row, run, width, pair(0, 0)[0].type)


def _read(
    tile: SharedTile, shared: ir.Value, base: Int, row: Int, run: Int, width: int, element: ir.Type
) -> list[ir.Value]:
    quad = ir.VectorType.get([_QUAD], element)
    if width == _QUAD:
        value = load(quad, _at(shared, base + tile.offset(row, run)), CHUNK)
        return [vector.extract(value, [], [lane]) for lane in range(_QUAD)]
    # Eight lanes that all read their first chunk would take every other chunk of 256 bytes: half read the second first.
    late = (run >> 2) & 1
    halves = [load(quad, _at(shared, base + tile.offset(row, run * 2 + (late ^ half))), CHUNK) for half in range(2)]
    is_late = late.equals(1)
    ordered = [arith.select(is_late, halves[1 - half], halves[half]) for half in range(2)]
    return [vector.extract(half, [], [lane]) for half in ordered for lane in range(_QUAD)]


def _at(shared: ir.Value, offset: Int) -> ir.Value:
    return element_pointer(shared, ir.IntegerType.get_signless(8), offset)
