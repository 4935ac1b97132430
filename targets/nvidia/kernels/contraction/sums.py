"""Rearrangement of tensor-core fragments into runs of neighbouring columns, through the warp's own shared memory.

In a fragment, a lane holds two neighbours of a row, too few for an efficient store. 16 rows of up to 64 columns are
written to shared memory as float32, and read back as 4 or 8 neighbours per lane; both are free of bank conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mlir import ir
from mlir.dialects import arith, vector

from .....machines.gpus import WARP
from ...instructions.inline_ptx import sync_warp
from ...instructions.integers import Int
from ...instructions.memory import element_pointer, load, store
from .shared import CHUNK, SharedTile

ROWS = 16
"""Rows of a fragment of sums, of `mma` and of each warp of `wgmma` (PTX ISA, "Matrix fragments")."""
_MOST_COLUMNS, _QUAD = 64, 4
"""Columns that pass at once, a choice that takes 4 KiB per warp; and float32 sums of a chunk."""
SumRun = tuple[Int, Int, list[ir.Value]]
"""Row and first column in the warp's tile, and the sums of neighbouring columns from there on."""


def columns_at_once(columns: int) -> int:
    """Returns the number of a warp's columns that pass through shared memory at a time."""
    return min(columns, _MOST_COLUMNS)


def scratch_bytes(columns: int) -> int:
    """Returns the bytes of shared memory that a warp needs."""
    return ROWS * columns_at_once(columns) * 4


class Scratch:
    """A warp's part of shared memory, through which 16 rows of sums pass at a time."""

    def __init__(self, columns: int, shared: ir.Value, base: Int, lane: Int, width: int) -> None:
        """Computes the addresses of the lane's writes and reads.

        Args:
            columns: columns of a warp, a multiple of 32.
            shared: shared memory.
            base: offset of the warp's scratch in it.
            lane: index of the lane.
            width: length of the runs, 4 or 8.
        """
        self._shared, self._base, self._width = shared, base, width
        self._at_once = columns_at_once(columns)
        self._tile = SharedTile.crossed(ROWS, self._at_once * 4)
        self._lane = lane
        per_row = self._at_once // width
        row, self._run = divmod(lane, per_row)
        self._rows = [row + number * (WARP // per_row) for number in range(ROWS * per_row // WARP)]
        self._columns = [self._run * width + first for first in range(0, columns, self._at_once)]

    def runs(self, pair: Callable[[int, int], list[ir.Value]]) -> Iterator[SumRun]:
        """Yields the sums of 16 rows.

        Args:
            pair: function of a number and a half; returns the sums of row lane / 4 + 8 * half at columns
                8 * number + lane % 4 * 2 and the next.
        """
        element = pair(0, 0)[0].type
        for slice, column in enumerate(self._columns):
            sync_warp()
            self._write(pair, slice * self._at_once // 8)
            sync_warp()
            for row in self._rows:
                yield row, column, self._read(row, element)

    def _write(self, pair: Callable[[int, int], list[ir.Value]], first: int) -> None:
        for number in range(self._at_once // 8):
            for half in range(2):
                values = pair(first + number, half)
                kind = ir.VectorType.get([2], values[0].type)
                place = self._tile.element(self._lane // 4 + 8 * half, self._lane % 4 * 2 + 8 * number, 4)
                store(vector.from_elements(kind, values), self._at(place), 8)

    def _read(self, row: Int, element: ir.Type) -> list[ir.Value]:
        quad = ir.VectorType.get([_QUAD], element)
        if self._width == _QUAD:
            value = load(quad, self._at(self._tile.offset(row, self._run)), CHUNK)
            return [vector.extract(value, [], [lane]) for lane in range(_QUAD)]
        # A stride of two chunks would cause bank conflicts, so half of the lanes read their second chunk first.
        late = (self._run >> 2) & 1
        chunks = [self._tile.offset(row, self._run * 2 + (late ^ half)) for half in range(2)]
        halves = [load(quad, self._at(chunk), CHUNK) for chunk in chunks]
        is_late = late.equals(1)
        ordered = [arith.select(is_late, halves[1 - half], halves[half]) for half in range(2)]
        return [vector.extract(half, [], [lane]) for half in ordered for lane in range(_QUAD)]

    def _at(self, offset: Int) -> ir.Value:
        return element_pointer(self._shared, ir.IntegerType.get_signless(8), self._base + offset)
