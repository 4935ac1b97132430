"""Exact float32 products: per depth, each thread multiplies up to 8 rows by up to 8 columns.

A warp's 32 threads form 4 rows of 8. Shared-memory reads of 16 bytes are free of bank conflicts: the eight threads of
one row read the same 16 bytes of the left-hand side and eight neighbouring chunks of the right-hand side.

    lines along rows (of the operand):   thread y has rows  4 y + (0..3), 16 + 4 y + (0..3), ..., read 4 at a time
    lines along depth:                   thread y has rows  y, y + 4, y + 8, ..., read 4 depths at a time
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import arith, vector

from .....machines.gpus import WARP
from ...instructions.integers import Int
from ...instructions.memory import element_pointer, load
from .copies import OperandTile
from .shared import SharedTile
from .sums import SumRun
from .tiles import Tiling

_ACROSS, _DOWN, _LANES = 8, 4, 4
"""Threads of a warp along columns and along rows, and float32 elements of an access of 16 bytes."""


class _Side:
    """One operand as a thread reads it."""

    def __init__(self, tile: OperandTile, shared: ir.Value, base: int, first: Int, place: Int, threads: int) -> None:
        self.tile, self._shared = tile, shared
        step = 1 if tile.by_depth else _LANES
        self._threads, self._first = threads, first + place * step
        self._f32 = ir.F32Type.get()
        self._quad = ir.VectorType.get([_LANES], self._f32)
        # Lines whose numbers differ by a multiple of `threads` have the same swizzle, so one base serves all of them.
        count = tile.depth // _LANES if tile.by_depth else 1
        line = (Int(0), self._first // _LANES)
        places = [(self._first, Int(chunk)) if tile.by_depth else line for chunk in range(count)]
        self._bases = [tile.layout.offset(*place) + base for place in places]

    def row(self, number: int) -> Int:
        """Returns the row in the block's tile of the thread's row `number`."""
        if self.tile.by_depth:
            return self._first + number * self._threads
        return self._first + number // _LANES * _LANES * self._threads + number % _LANES

    def values(self, stage: Int, depth: int, count: int) -> list[list[ir.Value]]:
        """Returns the thread's `count` elements at each of the four depths from `depth` on, as scalars."""
        if self.tile.by_depth:
            base = self._at(self._bases[depth // _LANES] + stage)
            step = self._threads * self.tile.layout.row_bytes
            lines = [self._scalars(base, number * step) for number in range(count)]
            return [[line[ahead] for line in lines] for ahead in range(_LANES)]
        base = self._at(self._bases[0] + stage)
        quads = range(count // _LANES)
        starts = [(depth + ahead) * self.tile.layout.row_bytes for ahead in range(_LANES)]
        step = self._threads * _LANES * 4
        return [[value for quad in quads for value in self._scalars(base, start + quad * step)] for start in starts]

    def _at(self, offset: Int) -> ir.Value:
        return element_pointer(self._shared, ir.IntegerType.get_signless(8), offset)

    def _scalars(self, base: ir.Value, constant: int) -> list[ir.Value]:
        pointer = element_pointer(base, ir.IntegerType.get_signless(8), Int(constant))
        quad = load(self._quad, pointer, 16)
        return [vector.extract(quad, [], [lane]) for lane in range(_LANES)]


class FmaProducts:
    """The products of one block.

    Attributes:
        column: first column of the thread's results, always 0: results carry complete columns.
    """

    column = Int(0)

    def __init__(
        self, tiling: Tiling, lhs: OperandTile, rhs: OperandTile, shared: ir.Value, rhs_base: int, thread: Int
    ) -> None:
        """Computes the addresses of the thread's reads.

        Args:
            tiling: tile sizes.
            lhs: the left-hand side in shared memory, at the start of a stage.
            rhs: the right-hand side.
            shared: shared memory.
            rhs_base: offset of the right-hand side in a stage.
            thread: index of the thread in the block.
        """
        warp, lane = divmod(thread, WARP)
        down = tiling.rows // tiling.warp_rows
        warp_column, warp_row = divmod(warp, down)
        y, x = divmod(lane, _ACROSS)
        self._lhs = _Side(lhs, shared, 0, warp_row * tiling.warp_rows, y, _DOWN)
        self._rhs = _Side(rhs, shared, rhs_base, warp_column * tiling.warp_columns, x, _ACROSS)
        self._rows, self._columns = tiling.warp_rows // _DOWN, tiling.warp_columns // _ACROSS
        self._depth = tiling.depth
        self._quad = ir.VectorType.get([_LANES], ir.F32Type.get())

    @staticmethod
    def layout(lines: int, line_bytes: int, by_depth: bool, is_lhs: bool) -> SharedTile:
        """Returns the layout of a tile in shared memory; only right-hand sides along depth need a swizzle."""
        if by_depth and not is_lhs:
            return SharedTile.swizzled(lines, line_bytes)
        return SharedTile.plain(lines, line_bytes)

    def initial(self) -> list[ir.Value]:
        """Returns the initial sums, which are zero."""
        zero = arith.constant(self._quad, ir.DenseElementsAttr.get_splat(self._quad, ir.FloatAttr.get_f32(0.0)))
        return [zero] * (self._rows * self._columns // _LANES)

    def multiply(self, stage: Int, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Returns the sums plus the products of the tiles in a stage."""
        new, quads = list(sums), self._columns // _LANES
        for depth in range(0, self._depth, _LANES):
            left = self._lhs.values(stage, depth, self._rows)
            right = self._rhs.values(stage, depth, self._columns)
            for ahead in range(_LANES):
                parts = [right[ahead][at : at + _LANES] for at in range(0, self._columns, _LANES)]
                columns = [vector.from_elements(self._quad, part) for part in parts]
                for row in range(self._rows):
                    factor = vector.broadcast(self._quad, left[ahead][row])
                    for quad in range(quads):
                        place = row * quads + quad
                        new[place] = vector.fma(factor, columns[quad], new[place])
        return new

    def results(self, sums: Sequence[ir.Value], width: int) -> Iterator[SumRun]:
        """Yields the sums in runs of neighbours, of length one if the right-hand side's lines run along depth."""
        del width  # a thread has at most four neighbours
        quads = self._columns // _LANES
        together = 1 if self._rhs.tile.by_depth else _LANES
        columns = {first: self._rhs.row(first) for first in range(0, self._columns, together)}
        for place, value in enumerate(sums):
            row, quad = divmod(place, quads)
            lanes = [vector.extract(value, [], [lane]) for lane in range(_LANES)]
            for first in range(0, _LANES, together):
                column = columns[quad * _LANES + first]
                yield self._lhs.row(row), column, lanes[first : first + together]
