"""Attention on tensor cores by `mma.sync` (16-bit floats, float32 sums), with scores and weights in registers.

Each of four warps computes 16 * `down` rows of the result on its own. `ldmatrix` loads keys as they are stored and
values transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from .....machines.gpus import WARP
from ...emission.launch import LaunchContext
from ...instructions.inline_ptx import load_matrices, multiply_matrices
from ...instructions.integers import Int
from ..contraction.shared import SharedTile
from .block import AttentionBlock
from .fragments import COLUMNS, DEPTH, ROWS, SHARING, by_row, columns_of, left_fragment, row_of, rows_of, runs
from .problem import Attention
from .rows import RowValues
from .simt import padded
from .softmax import number

# Warps of a block, and bytes of a 16-bit float.
_WARPS = 4
_BYTES = 2
# Registers, of 255, that ptxas can allocate without spilling.
_MOST_HELD = 176
FORMS = {"f16": "m16n8k16.row.col.f32.f16.f16.f32", "bf16": "m16n8k16.row.col.f32.bf16.bf16.f32"}


@dataclass(frozen=True)
class MmaTiles:
    """Tile sizes of a block.

    Attributes:
        down: tiles of 16 rows per warp.
        keys: keys per tile; a multiple of 16.
    """

    down: int
    keys: int

    @property
    def rows(self) -> int:
        """Rows per block."""
        return _WARPS * ROWS * self.down

    @property
    def threads(self) -> int:
        """Threads per block."""
        return _WARPS * WARP

    def layout(self, attention: Attention) -> tuple[SharedTile, SharedTile, SharedTile]:
        """Returns the layout of the tiles of query, keys and values."""
        depth, width = (padded(attention.sizes[name], DEPTH) * _BYTES for name in "dv")
        lines = ((self.rows, depth), (self.keys, depth), (self.keys, width))
        query, keys, values = (SharedTile.swizzled(*line) for line in lines)
        return query, keys, values

    def shared_bytes(self, attention: Attention) -> int:
        """Returns the shared memory of a block in bytes."""
        return sum(tile.bytes for tile in self.layout(attention))

    def fits_registers(self, attention: Attention) -> bool:
        """Returns whether a thread has registers for its sums, its scores, and the addresses of fragments."""
        depth, width = (padded(attention.sizes[name], DEPTH) for name in "dv")
        held = 4 * self.down * (width + self.keys) // COLUMNS + (depth + width) // DEPTH
        return held <= _MOST_HELD

    def block(self, attention: Attention, launch: LaunchContext) -> AttentionBlock:
        """Returns the emitter of the kernel."""
        return _MmaBlock(attention, self, launch)


class _MmaBlock(AttentionBlock):
    def __init__(self, attention: Attention, sizes: MmaTiles, launch: LaunchContext) -> None:
        super().__init__(attention, launch)
        self.threads, self.rows, self.keys, self.tiles = sizes.threads, sizes.rows, sizes.keys, sizes.layout(attention)
        self._down = sizes.down
        self._form = FORMS[str(attention.query.element)]
        self._across = sizes.keys // COLUMNS
        self._columns = self.tiles[2].row_bytes // _BYTES // COLUMNS

    def thread_rows(self) -> list[Int]:
        return rows_of(self.thread, self._down)

    def thread_keys(self) -> tuple[Int, list[int]]:
        return columns_of(self.thread, self.keys)

    def across(self) -> list[int]:
        return SHARING

    def initial(self) -> list[ir.Value]:
        return [number(0.0)] * (4 * self._down * self._columns)

    def products(self) -> RowValues:
        query, keys, _ = self.tiles
        warp, lane = divmod(self.thread, WARP)
        matrix, line = divmod(lane, 8)
        # The second matrix of a left-hand side is below the first; that of a right-hand side is ahead in depth.
        left = self._start(query, warp * (ROWS * self._down) + matrix % 2 * 8 + line, matrix // 2, 0)
        right = self._start(keys, matrix // 2 * 8 + line, matrix % 2, self.bases()[1])
        sums = [number(0.0)] * (4 * self._down * self._across)
        for step in range(query.row_bytes // (DEPTH * _BYTES)):
            lefts = [self._fragment(left, query, step, tile) for tile in range(self._down)]
            for pair in range(self._across // 2):
                fragment = self._fragment(right, keys, step, pair)
                self._accumulate(sums, lefts, fragment, pair, self._across)
        return by_row(sums, self.keys)

    def share(self, weights: RowValues) -> None:
        """Does nothing: weights stay in registers."""

    def multiply(self, weights: RowValues, factors: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        values = self.tiles[2]
        matrix, line = divmod(self.thread % WARP, 8)
        start = self._start(values, matrix % 2 * 8 + line, matrix // 2, self.bases()[2])
        width = self._columns * COLUMNS
        new = [arith.mulf(sum_, factors[row_of(place, width)]) for place, sum_ in enumerate(sums)]
        for step in range(self.keys // DEPTH):
            lefts = [left_fragment(weights, tile, step, self.attention.query.element) for tile in range(self._down)]
            for pair in range(self._columns // 2):
                # Lines are keys: a step in depth is a step down in shared memory.
                place = self.shared.address + (start ^ (pair << 5))
                fragment = load_matrices(place, 4, transposed=True, offset=step * DEPTH * values.row_bytes)
                self._accumulate(new, lefts, fragment, pair, self._columns)
        return new

    def results(self, sums: Sequence[ir.Value]) -> list[tuple[int, Int, list[ir.Value]]]:
        return runs(sums, self.thread, self._columns * COLUMNS)

    def _start(self, tile: SharedTile, row: Int, chunk: Int, base: int) -> Int:
        """Returns the offset in shared memory of a lane's first read from a tile; a step in depth flips bits of it."""
        return tile.offset(row, chunk) + base

    def _fragment(self, start: Int, tile: SharedTile, step: int, number: int) -> list[ir.Value]:
        """Loads the matrices of 16 rows; a step advances by two chunks."""
        place = self.shared.address + (start ^ (step << 5))
        return load_matrices(place, 4, offset=number * ROWS * tile.row_bytes)

    def _accumulate(
        self, sums: list[ir.Value], lefts: Sequence[list[ir.Value]], right: list[ir.Value], pair: int, columns: int
    ) -> None:
        """Adds the products of fragments and a pair of columns to the sums."""
        for tile, left in enumerate(lefts):
            for side in range(2):
                place = 4 * (tile * columns + 2 * pair + side)
                old = sums[place : place + 4]
                sums[place : place + 4] = multiply_matrices(self._form, left, right[2 * side : 2 * side + 2], old)
