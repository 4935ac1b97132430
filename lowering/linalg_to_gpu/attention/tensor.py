"""Attention on the tensor cores by `mma.sync` (16-bit floats, sums in float32): scores and weights in registers.

Each of four warps makes 16 * `down` rows of the result by itself. Of a 16 x 8 tile of sums a lane has two neighbours of
the rows l / 4 and l / 4 + 8: which is also how the left-hand side of the next product is laid out over the lanes, so
that two tiles of weights become one fragment without an exchange. Keys come by `ldmatrix` as they lie, values
transposed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

from ..contraction.shared import SharedTile
from ..instructions import load_matrices, multiply_matrices
from ..integers import Int
from .block import AttentionBlock, Rows
from .problem import Attention
from .simt import padded
from .softmax import number

_WARP, _WARPS = 32, 4
_ROWS, _COLUMNS, _DEPTH = 16, 8, 16
_BYTES = 2
# What ptxas manages to keep without spilling, of 255 registers.
_MOST_HELD = 176
FORMS = {"f16": "m16n8k16.row.col.f32.f16.f16.f32", "bf16": "m16n8k16.row.col.f32.bf16.bf16.f32"}


@dataclass(frozen=True)
class MmaTiles:
    """The sizes of a block's tiles.

    Attributes:
        down: tiles of 16 rows of one warp.
        keys: keys of a tile; a multiple of 16.
    """

    down: int
    keys: int

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return _WARPS * _ROWS * self.down

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return _WARPS * _WARP

    def layout(self, attention: Attention) -> tuple[SharedTile, SharedTile, SharedTile]:
        """Tiles of query, keys and values."""
        depth, width = (padded(attention.sizes[name], _DEPTH) * _BYTES for name in "dv")
        lines = ((self.rows, depth), (self.keys, depth), (self.keys, width))
        query, keys, values = (SharedTile.swizzled(*line) for line in lines)
        return query, keys, values

    def shared_bytes(self, attention: Attention) -> int:
        """The shared memory of a block."""
        return sum(tile.bytes for tile in self.layout(attention))

    def fits_registers(self, attention: Attention) -> bool:
        """Whether a thread has registers for its sums, its scores, and the places of fragments."""
        depth, width = (padded(attention.sizes[name], _DEPTH) for name in "dv")
        held = 4 * self.down * (width + self.keys) // _COLUMNS + (depth + width) // _DEPTH
        return held <= _MOST_HELD

    def block(self, attention: Attention, pointers: Mapping[ir.Value, ir.Value]) -> AttentionBlock:
        """What writes the kernel."""
        return _MmaBlock(attention, self, pointers)


class _MmaBlock(AttentionBlock):
    def __init__(self, attention: Attention, sizes: MmaTiles, pointers: Mapping[ir.Value, ir.Value]) -> None:
        super().__init__(attention, pointers)
        self.threads, self.rows, self.keys, self.tiles = sizes.threads, sizes.rows, sizes.keys, sizes.layout(attention)
        self._down = sizes.down
        self._form = FORMS[str(attention.query.element)]
        self._across = sizes.keys // _COLUMNS
        self._columns = self.tiles[2].row_bytes // _BYTES // _COLUMNS

    def thread_rows(self) -> list[Int]:
        warp, lane = divmod(self.thread, _WARP)
        first = warp * (_ROWS * self._down) + lane // 4
        return [first + tile * _ROWS + half * 8 for tile in range(self._down) for half in range(2)]

    def thread_keys(self) -> list[Int]:
        first = self.thread % 4 * 2
        return [first + tile * _COLUMNS + place for tile in range(self._across) for place in range(2)]

    def across(self) -> list[int]:
        return [2, 1]

    def initial(self) -> list[ir.Value]:
        return [number(0.0)] * (4 * self._down * self._columns)

    def products(self) -> Rows:
        query, keys, _ = self.tiles
        warp, lane = divmod(self.thread, _WARP)
        matrix, line = divmod(lane, 8)
        # The second matrix of a left-hand side lies below the first, that of a pair of right-hand sides ahead of it.
        left = self._start(query, warp * (_ROWS * self._down) + matrix % 2 * 8 + line, matrix // 2, 0)
        right = self._start(keys, matrix // 2 * 8 + line, matrix % 2, self.bases()[1])
        sums = [number(0.0)] * (4 * self._down * self._across)
        for step in range(query.row_bytes // (_DEPTH * _BYTES)):
            lefts = [self._fragment(left, query, step, tile) for tile in range(self._down)]
            for pair in range(self._across // 2):
                fragment = self._fragment(right, keys, step, pair)
                self._accumulate(sums, lefts, fragment, pair, self._across)
        found: Rows = []
        for row in range(2 * self._down):
            tile, half = divmod(row, 2)
            places = [4 * (tile * self._across + column) + 2 * half for column in range(self._across)]
            found.append([sums[place + lane] for place in places for lane in range(2)])
        return found

    def share(self, weights: Rows) -> None:
        """Weights stay in registers."""

    def multiply(self, weights: Rows, factors: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        values = self.tiles[2]
        matrix, line = divmod(self.thread % _WARP, 8)
        start = self._start(values, matrix % 2 * 8 + line, matrix // 2, self.bases()[2])
        new = [arith.mulf(sum_, factors[self._row_of(place)]) for place, sum_ in enumerate(sums)]
        for step in range(self.keys // _DEPTH):
            lefts = [self._weights(weights, tile, step) for tile in range(self._down)]
            for pair in range(self._columns // 2):
                # Lines are keys: ahead in depth is below in shared memory.
                place = self.shared.address + (start ^ (pair << 5))
                fragment = load_matrices(place, 4, transposed=True, offset=step * _DEPTH * values.row_bytes)
                self._accumulate(new, lefts, fragment, pair, self._columns)
        return new

    def results(self, sums: Sequence[ir.Value]) -> list[tuple[int, Int, list[ir.Value]]]:
        first = self.thread % 4 * 2
        found = []
        for place in range(0, len(sums), 2):
            column = place // 4 % self._columns
            found.append((self._row_of(place), first + column * _COLUMNS, list(sums[place : place + 2])))
        return found

    def _row_of(self, place: int) -> int:
        """Which row of the thread a sum is of."""
        return place // (4 * self._columns) * 2 + place % 4 // 2

    def _start(self, tile: SharedTile, row: Int, chunk: Int, base: int) -> Int:
        """Where in shared memory lies what a lane reads first of a tile; a step ahead flips bits of it."""
        return tile.offset(row, chunk) + base

    def _fragment(self, start: Int, tile: SharedTile, step: int, number: int) -> list[ir.Value]:
        """The matrices of 16 rows, two chunks ahead a step."""
        place = self.shared.address + (start ^ (step << 5))
        return load_matrices(place, 4, offset=number * _ROWS * tile.row_bytes)

    def _accumulate(
        self, sums: list[ir.Value], lefts: Sequence[list[ir.Value]], right: list[ir.Value], pair: int, columns: int
    ) -> None:
        """Adds the products of fragments and a pair of columns to the sums."""
        for tile, left in enumerate(lefts):
            for side in range(2):
                place = 4 * (tile * columns + 2 * pair + side)
                old = sums[place : place + 4]
                sums[place : place + 4] = multiply_matrices(self._form, left, right[2 * side : 2 * side + 2], old)

    def _weights(self, weights: Rows, tile: int, step: int) -> list[ir.Value]:
        """The fragment of 16 keys of a tile of rows."""
        pairs = [(half, 2 * step + ahead) for ahead in range(2) for half in range(2)]
        return [self._packed(weights[2 * tile + half][2 * column : 2 * column + 2]) for half, column in pairs]

    def _packed(self, pair: Sequence[ir.Value]) -> ir.Value:
        """Two neighbours as 16-bit floats in a register."""
        single = vector.from_elements(ir.VectorType.get([2], ir.F32Type.get()), pair)
        half = arith.truncf(ir.VectorType.get([2], self.attention.query.element), single)
        word = vector.bitcast(ir.VectorType.get([1], ir.IntegerType.get_signless(32)), half)
        return vector.extract(word, [], [0])
