"""Attention in float32 arithmetic (FFMA), exact up to the order of sums.

A block of 256 threads computes 16 * `down` rows of the result. Thread (x, y) of 16 x 16 holds the rows y + 16 i, the
scores of the keys x + 16 j, and the 16-byte chunks x + 16 c of the result. Weights pass through shared memory, since
every thread needs those of its rows for all keys; the threads of half a warp write and read those of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector
from mlir.dialects import math as math_dialect

from ...emission.launch import LaunchContext
from ...instructions import memory
from ...instructions.integers import Int
from ...instructions.loops import repeat
from ..contraction.shared import SharedTile
from .block import AttentionBlock
from .problem import Attention
from .rows import RowValues
from .softmax import number

# Threads along each side of a block, and float32 elements of an access of 16 bytes.
_ACROSS = 16
_LANES = 4
THREADS = _ACROSS * _ACROSS
_BYTES = 4
"""Size of a float32 in bytes."""
_MOST_HELD = 128
"""Sums and scores of a thread: half of its 255 registers; the rest holds operands and addresses."""
# Padding of a line of weights: two rows that half warps access at once start in different banks.
_PITCH_EXTRA = 16
# Chunks of a line per iteration of the loop over depth; swizzled offsets then differ by constants from the loop's.
_CHUNKS = 8


@dataclass(frozen=True)
class FmaTiles:
    """Tile sizes of a block.

    Attributes:
        down: rows per thread.
        keys: keys per tile.
    """

    down: int
    keys: int

    @property
    def rows(self) -> int:
        """Rows per block."""
        return _ACROSS * self.down

    @property
    def threads(self) -> int:
        """Threads per block."""
        return THREADS

    @property
    def pitch(self) -> int:
        """Distance of rows of weights in shared memory, in elements."""
        return self.keys + _PITCH_EXTRA

    def layout(self, attention: Attention) -> tuple[SharedTile, SharedTile, SharedTile]:
        """Returns the layout of the tiles of query, keys and values."""
        depth, width = padded(attention.sizes["d"], _CHUNKS * _LANES), padded(attention.sizes["v"], _ACROSS * _LANES)
        query = SharedTile.swizzled(self.rows, depth * _BYTES)
        keys = SharedTile.swizzled(self.keys, depth * _BYTES)
        return query, keys, SharedTile.plain(self.keys, width * _BYTES)

    def shared_bytes(self, attention: Attention) -> int:
        """Returns the shared memory of a block in bytes."""
        return sum(tile.bytes for tile in self.layout(attention)) + self.rows * self.pitch * _BYTES

    def fits_registers(self, attention: Attention) -> bool:
        """Returns whether sums and scores take at most half of a thread's 255 registers."""
        chunks = self.layout(attention)[2].row_bytes // (_ACROSS * _LANES * _BYTES)
        return self.down * (chunks * _LANES + self.keys // _ACROSS) <= _MOST_HELD

    def block(self, attention: Attention, launch: LaunchContext) -> AttentionBlock:
        """Returns the emitter of the kernel."""
        return _FmaBlock(attention, self, launch)


class _FmaBlock(AttentionBlock):
    def __init__(self, attention: Attention, sizes: FmaTiles, launch: LaunchContext) -> None:
        super().__init__(attention, launch)
        self.threads, self.rows, self.keys, self.tiles = THREADS, sizes.rows, sizes.keys, sizes.layout(attention)
        self._down, self._pitch = sizes.down, sizes.pitch
        self._chunks = self.tiles[2].row_bytes // (_ACROSS * _LANES * _BYTES)
        self._weight_base = sum(tile.bytes for tile in self.tiles)
        self._quad = ir.VectorType.get([_LANES], ir.F32Type.get())

    def thread_rows(self) -> list[Int]:
        return [self.thread // _ACROSS + row * _ACROSS for row in range(self._down)]

    def thread_keys(self) -> tuple[Int, list[int]]:
        return self.thread % _ACROSS, [place * _ACROSS for place in range(self.keys // _ACROSS)]

    def across(self) -> list[int]:
        return [8, 4, 2, 1]

    def initial(self) -> list[ir.Value]:
        zero = arith.constant(self._quad, ir.DenseElementsAttr.get_splat(self._quad, ir.FloatAttr.get_f32(0.0)))
        return [zero] * (self._down * self._chunks)

    def products(self) -> RowValues:
        query, keys, _ = self.tiles
        y, x = divmod(self.thread, _ACROSS)
        down, across = self._down, self.keys // _ACROSS
        sides = [(query, y, 0, down), (keys, x, self.bases()[1], across)]

        def turn(step: Int, state: Sequence[ir.Value]) -> list[ir.Value]:
            sums = list(state)
            for chunk in range(_CHUNKS):
                left, right = (
                    [self._chunk(tile, line, base, step, chunk, number) for number in range(count)]
                    for tile, line, base, count in sides
                )
                for lane in range(_LANES):
                    for place in range(down * across):
                        row, key = divmod(place, across)
                        sums[place] = math_dialect.fma(left[row][lane], right[key][lane], sums[place])
            return sums

        turns = query.row_bytes // (_CHUNKS * _LANES * _BYTES)
        sums = repeat(Int(turns), [number(0.0)] * (down * across), turn)
        return [sums[row * across : (row + 1) * across] for row in range(down)]

    def _chunk(self, tile: SharedTile, line: Int, base: int, step: Int, chunk: int, number: int) -> list[ir.Value]:
        """Loads the elements of one chunk of the line `line + 16 * number`."""
        start = tile.offset(line, Int(chunk)) + step * (_CHUNKS * _LANES * _BYTES)
        return self._loaded(start, base + number * _ACROSS * tile.row_bytes)

    def _loaded(self, offset: Int, constant: int) -> list[ir.Value]:
        value = memory.load(self._quad, self._address(offset, constant), _LANES * _BYTES)
        return [vector.extract(value, [], [lane]) for lane in range(_LANES)]

    def _address(self, offset: Int, constant: int) -> ir.Value:
        return memory.element_pointer(self.shared.pointer, ir.IntegerType.get_signless(8), offset, constant)

    def share(self, weights: RowValues) -> None:
        y, x = divmod(self.thread, _ACROSS)
        start = (y * self._pitch + x) * _BYTES
        for row, items in enumerate(weights):
            for place, item in enumerate(items):
                constant = self._weight_base + (row * _ACROSS * self._pitch + place * _ACROSS) * _BYTES
                memory.store(item, self._address(start, constant), _BYTES)

    def multiply(self, weights: RowValues, factors: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        y, x = divmod(self.thread, _ACROSS)
        line_bytes, base = self.tiles[2].row_bytes, self.bases()[2]
        scaled = [vector.broadcast(self._quad, factors[place // self._chunks]) for place in range(len(sums))]
        start = [arith.mulf(factor, sum_) for factor, sum_ in zip(scaled, sums, strict=True)]

        def turn(step: Int, state: Sequence[ir.Value]) -> list[ir.Value]:
            new = list(state)
            weight = (y * self._pitch + step * _LANES) * _BYTES
            places = [self._weight_base + row * _ACROSS * self._pitch * _BYTES for row in range(self._down)]
            left = [self._loaded(weight, place) for place in places]
            line = step * (_LANES * line_bytes) + x * (_LANES * _BYTES)
            for lane in range(_LANES):
                for chunk in range(self._chunks):
                    constant = base + lane * line_bytes + chunk * _ACROSS * _LANES * _BYTES
                    right = memory.load(self._quad, self._address(line, constant), _LANES * _BYTES)
                    for row in range(self._down):
                        place = row * self._chunks + chunk
                        new[place] = vector.fma(vector.broadcast(self._quad, left[row][lane]), right, new[place])
            return new

        return repeat(Int(self.keys // _LANES), start, turn)

    def results(self, sums: Sequence[ir.Value]) -> list[tuple[int, Int, list[ir.Value]]]:
        found = []
        for place, quad in enumerate(sums):
            row, chunk = divmod(place, self._chunks)
            column = self.thread % _ACROSS * _LANES + chunk * _ACROSS * _LANES
            found.append((row, column, [vector.extract(quad, [], [lane]) for lane in range(_LANES)]))
        return found


def padded(size: int, multiple: int) -> int:
    """Returns the smallest power of two that is at least `size` and `multiple`."""
    return max(multiple, 1 << (size - 1).bit_length())
