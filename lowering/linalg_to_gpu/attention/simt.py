"""Attention in float32 arithmetic (FFMA), exact but for the order of sums.

A block of 256 threads makes 16 * `down` rows of the result; thread (x, y) of 16 x 16 has the rows y + 16 i, of scores
the keys x + 16 j, of the result the 16-byte chunks x + 16 c. Weights go through shared memory, as every thread needs
those of its rows for all keys; of a row, the threads of half a warp make and read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector
from mlir.dialects import math as math_dialect

from .. import memory
from ..contraction.shared import SharedTile
from ..integers import Int
from ..launch import Launch
from ..loops import repeat
from .block import AttentionBlock
from .problem import Attention
from .rows import Rows
from .softmax import number

_ACROSS = 16
_LANES = 4
THREADS = _ACROSS * _ACROSS
_BYTES = 4
_MOST_HELD = 128
# A line of weights: two rows that half warps write or read at once begin in different banks.
_PITCH_EXTRA = 16
# Chunks of a line that the loop over depth takes at once: then a swizzled place is a constant from the loop's.
_CHUNKS = 8


@dataclass(frozen=True)
class FmaTiles:
    """The sizes of a block's tiles.

    Attributes:
        down: rows of one thread.
        keys: keys of a tile.
    """

    down: int
    keys: int

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return _ACROSS * self.down

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return THREADS

    @property
    def pitch(self) -> int:
        """Weights from one row to the next."""
        return self.keys + _PITCH_EXTRA

    def layout(self, attention: Attention) -> tuple[SharedTile, SharedTile, SharedTile]:
        """Tiles of query, keys and values."""
        depth, width = padded(attention.sizes["d"], _CHUNKS * _LANES), padded(attention.sizes["v"], _ACROSS * _LANES)
        query = SharedTile.swizzled(self.rows, depth * _BYTES)
        keys = SharedTile.swizzled(self.keys, depth * _BYTES)
        return query, keys, SharedTile.plain(self.keys, width * _BYTES)

    def shared_bytes(self, attention: Attention) -> int:
        """The shared memory of a block."""
        return sum(tile.bytes for tile in self.layout(attention)) + self.rows * self.pitch * _BYTES

    def fits_registers(self, attention: Attention) -> bool:
        """Whether a thread has registers for its sums and scores: no more than half of those of 255."""
        chunks = self.layout(attention)[2].row_bytes // (_ACROSS * _LANES * _BYTES)
        return self.down * (chunks * _LANES + self.keys // _ACROSS) <= _MOST_HELD

    def block(self, attention: Attention, launch: Launch) -> AttentionBlock:
        """What writes the kernel."""
        return _FmaBlock(attention, self, launch)


class _FmaBlock(AttentionBlock):
    def __init__(self, attention: Attention, sizes: FmaTiles, launch: Launch) -> None:
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

    def products(self) -> Rows:
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
        """The elements of one chunk of the line `line + 16 * number`."""
        start = tile.offset(line, Int(chunk)) + step * (_CHUNKS * _LANES * _BYTES)
        return self._loaded(start, base + number * _ACROSS * tile.row_bytes)

    def _loaded(self, offset: Int, constant: int) -> list[ir.Value]:
        value = memory.load(self._quad, self._address(offset, constant), _LANES * _BYTES)
        return [vector.extract(value, [], [lane]) for lane in range(_LANES)]

    def _address(self, offset: Int, constant: int) -> ir.Value:
        return memory.element_pointer(self.shared.pointer, ir.IntegerType.get_signless(8), offset, constant)

    def share(self, weights: Rows) -> None:
        y, x = divmod(self.thread, _ACROSS)
        start = (y * self._pitch + x) * _BYTES
        for row, items in enumerate(weights):
            for place, item in enumerate(items):
                constant = self._weight_base + (row * _ACROSS * self._pitch + place * _ACROSS) * _BYTES
                memory.store(item, self._address(start, constant), _BYTES)

    def multiply(self, weights: Rows, factors: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
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
    """The smallest power of two that holds `size`, and is no smaller than `multiple`."""
    return max(multiple, 1 << (size - 1).bit_length())
