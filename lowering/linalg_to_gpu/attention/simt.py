"""Attention in float32 arithmetic (FFMA), exact but for the order of sums.

A block of 256 threads makes 16 * `down` rows of the result; thread (x, y) of 16 x 16 has the rows y + 16 i, of scores
the keys x + 16 j, of the result the 16-byte chunks x + 16 c. Query, keys and values lie in shared memory, and weights,
as every thread needs those of its rows for all keys (of a row, the threads of half a warp make and read them).

    wait for keys t; barrier; start values t       scores = query @ keys t; softmax; weights -> shared memory
    wait for values t; barrier; start keys t + 1   sums += weights @ values t
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, vector
from mlir.dialects import math as math_dialect

from .. import memory
from ..bodies import evaluate
from ..contraction.shared import SharedTile
from ..integers import Int
from ..loops import repeat, when
from ..rows.exchange import from_lane
from .elements import Scores
from .output import Output
from .problem import Attention
from .softmax import Softmax, greater, number
from .tiles import Shared, TileCopies

_ACROSS = 16
_LANES = 4
THREADS = _ACROSS * _ACROSS
_BYTES = 4
# A line of weights: two rows that half warps write or read at once begin in different banks.
_PITCH_EXTRA = 16
# Chunks of a line that the loop over depth takes at once: then a swizzled place is a constant from the loop's.
_CHUNKS = 8


@dataclass(frozen=True)
class Tiles:
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

    def layout(self, attention: Attention) -> tuple[SharedTile, SharedTile, SharedTile, int]:
        """Tiles of query, keys and values, and the bytes of weights."""
        depth, width = _padded(attention.sizes["d"], _CHUNKS * _LANES), _padded(attention.sizes["v"], _ACROSS * _LANES)
        query = SharedTile.swizzled(self.rows, depth * _BYTES)
        keys = SharedTile.swizzled(self.keys, depth * _BYTES)
        values = SharedTile.plain(self.keys, width * _BYTES)
        return query, keys, values, self.rows * (self.keys + _PITCH_EXTRA) * _BYTES

    def shared_bytes(self, attention: Attention) -> int:
        """The shared memory of a block."""
        *tiles, weights = self.layout(attention)
        return sum(tile.bytes for tile in tiles) + weights


def emit(attention: Attention, tiles: Tiles, pointers: Mapping[ir.Value, ir.Value]) -> int:
    """Writes the body of a GPU kernel at the insertion point.

    Args:
        attention: what to compute.
        tiles: the sizes of tiles.
        pointers: where the function's arguments are in global memory.

    Returns:
        How many blocks there are, of `THREADS` threads.
    """
    return _Kernel(attention, tiles, pointers).emit()


class _Kernel:
    def __init__(self, attention: Attention, tiles: Tiles, pointers: Mapping[ir.Value, ir.Value]) -> None:
        self._attention, self._tiles, self._pointers = attention, tiles, pointers
        self._sizes = attention.sizes
        self._rows = self._sizes["g"] * self._sizes["q"]
        self._query, self._keys, self._values, _ = tiles.layout(attention)
        self._key_base = self._query.bytes
        self._value_base = self._key_base + self._keys.bytes
        self._weight_base = self._value_base + self._values.bytes
        self._chunks = self._values.row_bytes // (_ACROSS * _LANES * _BYTES)
        self._scores = Scores(attention, pointers)
        self._quad = ir.VectorType.get([_LANES], ir.F32Type.get())

    def emit(self) -> int:
        """Copies, loops over the keys, writes; returns the number of blocks."""
        blocks = -(-self._rows // self._tiles.rows)
        self._thread = memory.thread_number()
        self._y, self._x = divmod(self._thread, _ACROSS)
        self._item, block = divmod(memory.block_number(), blocks) if blocks > 1 else (memory.block_number(), Int(0))
        self._first = block * self._tiles.rows
        pointer = memory.shared_memory()
        self._shared = Shared(pointer, memory.shared_address(pointer))
        query = self._copies("query", "gq", "d", self._query, 0)
        keys = self._copies("key", "k", "d", self._keys, self._key_base)
        values = self._copies("value", "k", "v", self._values, self._value_base)
        query.start(self._first)
        query.finish()
        keys.start(Int(0))
        down, steps = self._tiles.down, -(-self._sizes["k"] // self._tiles.keys)
        zero = arith.constant(self._quad, ir.DenseElementsAttr.get_splat(self._quad, ir.FloatAttr.get_f32(0.0)))
        start = [number(self._attention.start)] * down + [number(0.0)] * down + [zero] * (down * self._chunks)

        def turn(step: Int, state: Sequence[ir.Value]) -> list[ir.Value]:
            key = step * self._tiles.keys
            keys.finish()
            gpu.barrier()
            values.start(key)
            weights, factors, ends = self._softmax(key, self._products(), state[: 2 * down])
            self._put(weights)
            values.finish()
            gpu.barrier()
            following = key + self._tiles.keys
            keys.start(following, following.below(self._sizes["k"]))
            return [*ends, *self._multiply(factors, state[2 * down :])]

        state = repeat(Int(steps), start, turn)
        self._write(state[down : 2 * down], state[2 * down :])
        return blocks * self._attention.heads

    def _copies(self, name: str, lines: str, inner: str, tile: SharedTile, base: int) -> TileCopies:
        operand = getattr(self._attention, name)
        block = (self._item, self._thread, THREADS)
        place = (self._pointers[operand.base], self._shared, base)
        return TileCopies(operand, self._sizes, ("bh", lines, inner), tile, block, place)

    def _products(self) -> list[list[ir.Value]]:
        """Query times key: of each of this thread's rows, for each of its keys."""
        down, across = self._tiles.down, self._tiles.keys // _ACROSS
        depth = self._query.row_bytes // (_LANES * _BYTES)
        lines = [(self._query, self._y, 0, down), (self._keys, self._x, self._key_base, across)]

        def turn(step: Int, state: Sequence[ir.Value]) -> list[ir.Value]:
            sums = list(state)
            for chunk in range(_CHUNKS):
                left, right = (
                    [self._chunk(tile, line, base, step, chunk, number) for number in range(count)]
                    for tile, line, base, count in lines
                )
                for lane in range(_LANES):
                    for row in range(down):
                        for key in range(across):
                            place = row * across + key
                            sums[place] = math_dialect.fma(left[row][lane], right[key][lane], sums[place])
            return sums

        sums = repeat(Int(depth // _CHUNKS), [number(0.0)] * (down * across), turn)
        return [sums[row * across : (row + 1) * across] for row in range(down)]

    def _chunk(self, tile: SharedTile, line: Int, base: int, step: Int, chunk: int, number_: int) -> list[ir.Value]:
        """The elements of one chunk of the line `line + 16 * number_`."""
        start = tile.offset(line, Int(chunk)) + step * (_CHUNKS * _LANES * _BYTES)
        return self._loaded(start, base + number_ * _ACROSS * tile.row_bytes)

    def _loaded(self, offset: Int, constant: int) -> list[ir.Value]:
        value = memory.load(self._quad, self._address(offset, constant), _LANES * _BYTES)
        return [vector.extract(value, [], [lane]) for lane in range(_LANES)]

    def _address(self, offset: Int, constant: int) -> ir.Value:
        return memory.element_pointer(self._shared.pointer, ir.IntegerType.get_signless(8), offset, constant)

    def _softmax(
        self, key: Int, products: list[list[ir.Value]], state: Sequence[ir.Value]
    ) -> tuple[list[list[ir.Value]], list[ir.Value], list[ir.Value]]:
        """Weights of this thread's products, the factors for earlier sums, and the greatest scores and totals."""
        attention, down = self._attention, self._tiles.down
        plain = not attention.has_mask and attention.scale > 0
        softmax = Softmax(attention.scale if plain else None, _greatest)
        weights, factors, greatest, totals = [], [], [], []
        for row, items in enumerate(products):
            scores = [self._score(key, row, place, item, plain) for place, item in enumerate(items)]
            made, factor, most, total = softmax.step(scores, state[row], state[down + row])
            weights.append(made)
            factors.append(factor)
            greatest.append(most)
            totals.append(total)
        return weights, factors, [*greatest, *totals]

    def _score(self, key: Int, row: int, place: int, product: ir.Value, plain: bool) -> ir.Value:
        """The score of a product; -inf past the last key."""
        index = key + self._x + place * _ACROSS
        last = self._sizes["k"]
        inside = index.below(last) if last % self._tiles.keys else None
        score = product
        if not plain:
            score = arith.mulf(product, number(self._attention.scale))
            score = self._scores.score(score, {**self._row_places(row), "k": index.where(inside, last - 1)})
        return score if inside is None else arith.select(inside, score, number(-math.inf))

    def _row_places(self, row: int) -> dict[str, Int]:
        """Where each loop is of a row of this thread: past the last row, at the last."""
        number_ = self._first + self._y + row * _ACROSS
        inside = number_.below(self._rows) if self._rows % self._tiles.rows else None
        number_ = number_.where(inside, self._rows - 1)
        group, query = divmod(number_, self._sizes["q"]) if self._sizes["g"] > 1 else (Int(0), number_)
        batch, head = divmod(self._item, self._sizes["h"]) if self._sizes["h"] > 1 else (self._item, Int(0))
        return {"b": batch, "h": head, "g": group, "q": query}

    def _put(self, weights: list[list[ir.Value]]) -> None:
        """Writes weights to shared memory, where half a warp reads what it has written."""
        pitch = self._tiles.keys + _PITCH_EXTRA
        start = (self._y * pitch + self._x) * _BYTES
        for row, items in enumerate(weights):
            for place, item in enumerate(items):
                constant = self._weight_base + (row * _ACROSS * pitch + place * _ACROSS) * _BYTES
                memory.store(item, self._address(start, constant), _BYTES)

    def _multiply(self, factors: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums times factors, plus weights times values."""
        down, pitch = self._tiles.down, self._tiles.keys + _PITCH_EXTRA
        start = [
            arith.mulf(vector.broadcast(self._quad, factors[place // self._chunks]), sum_)
            for place, sum_ in enumerate(sums)
        ]

        def turn(step: Int, state: Sequence[ir.Value]) -> list[ir.Value]:
            new = list(state)
            left = [
                self._loaded(
                    (self._y * pitch + step * _LANES) * _BYTES, self._weight_base + row * _ACROSS * pitch * _BYTES
                )
                for row in range(down)
            ]
            for lane in range(_LANES):
                line = step * (_LANES * self._values.row_bytes) + self._x * (_LANES * _BYTES)
                for chunk in range(self._chunks):
                    constant = self._value_base + lane * self._values.row_bytes + chunk * _ACROSS * _LANES * _BYTES
                    right = memory.load(self._quad, self._address(line, constant), _LANES * _BYTES)
                    for row in range(down):
                        factor = vector.broadcast(self._quad, left[row][lane])
                        place = row * self._chunks + chunk
                        new[place] = vector.fma(factor, right, new[place])
            return new

        return repeat(Int(self._tiles.keys // _LANES), start, turn)

    def _write(self, totals: Sequence[ir.Value], sums: Sequence[ir.Value]) -> None:
        """Writes this thread's results."""
        attention = self._attention
        inverses = [evaluate(attention.inverse, [_sum(total), None]) for total in totals]
        output = Output(attention, self._pointers[attention.result.base], self._item)
        padded = self._sizes["v"] % (self._chunks * _ACROSS * _LANES) > 0
        for place, quad in enumerate(sums):
            row, chunk = divmod(place, self._chunks)
            line = self._first + self._y + row * _ACROSS
            column = self._x * _LANES + chunk * _ACROSS * _LANES
            parts = [vector.extract(quad, [], [lane]) for lane in range(_LANES)]
            results = [evaluate(attention.last, [part, inverses[row], None]) for part in parts]
            with when(line.below(self._rows) if self._rows % self._tiles.rows else None):
                output.write(line, column, results, padded)


def _greatest(value: ir.Value) -> ir.Value:
    """The greatest of what the 16 threads of a row have."""
    for distance in (8, 4, 2, 1):
        value = greater(from_lane(value, distance), value)
    return value


def _sum(value: ir.Value) -> ir.Value:
    for distance in (8, 4, 2, 1):
        value = arith.addf(value, from_lane(value, distance))
    return value


def _padded(size: int, multiple: int) -> int:
    """The smallest power of two that holds `size`, and is no smaller than `multiple`."""
    return max(multiple, 1 << (size - 1).bit_length())
