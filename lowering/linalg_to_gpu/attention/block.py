"""What all attention kernels do: a block of rows stays, keys and values pass by, the softmax is kept up to date.

    wait for keys t; barrier; start values t       scores = query @ keys t; softmax
    wait for values t; barrier; start keys t + 1   sums += weights @ values t

Keys and values have one tile each in shared memory: one is copied while the other is multiplied.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, gpu

from .. import memory
from ..bodies import evaluate
from ..contraction.shared import SharedTile
from ..integers import Int, both
from ..loops import repeat, when
from ..rows.axes import element_bytes
from ..rows.exchange import Combine, from_lane
from .elements import Scores
from .output import Output
from .problem import Attention
from .softmax import Softmax, greater, number
from .tiles import Shared, TileCopies

Rows = list[list[ir.Value]]
"""Of every row of a thread, its values."""


class AttentionBlock(ABC):
    """A block of `threads` threads that makes `rows` rows of the result, tiles of `keys` keys after each other.

    Attributes:
        tiles: of query, keys and values, in this order in shared memory.
    """

    threads: int
    rows: int
    keys: int
    tiles: tuple[SharedTile, SharedTile, SharedTile]

    def __init__(self, attention: Attention, pointers: Mapping[ir.Value, ir.Value]) -> None:
        """Prepares for a kernel whose arguments are at `pointers`."""
        self.attention, self._pointers = attention, pointers
        self.sizes = attention.sizes
        self._count = self.sizes["g"] * self.sizes["q"]
        self._scores = Scores(attention, pointers)

    @abstractmethod
    def thread_rows(self) -> list[Int]:
        """The rows of this thread, counted in the block."""

    @abstractmethod
    def thread_keys(self) -> list[Int]:
        """The keys in a tile of which it has scores."""

    @abstractmethod
    def products(self) -> Rows:
        """Query times keys."""

    @abstractmethod
    def initial(self) -> list[ir.Value]:
        """Sums of nothing."""

    @abstractmethod
    def multiply(self, weights: Rows, factors: Sequence[ir.Value], sums: Sequence[ir.Value]) -> list[ir.Value]:
        """The sums times a factor for each row, plus weights times values."""

    @abstractmethod
    def across(self) -> list[int]:
        """In which bits the lanes differ that share a row."""

    @abstractmethod
    def results(self, sums: Sequence[ir.Value]) -> list[tuple[int, Int, list[ir.Value]]]:
        """The sums by row of the thread, first column, and neighbours."""

    @abstractmethod
    def share(self, weights: Rows) -> None:
        """Makes weights known to other threads, which read them after the next barrier, where that is needed."""

    def bases(self) -> tuple[int, int, int]:
        """Where the tiles of query, keys and values begin in shared memory; what follows is the kernel's own."""
        query, keys, _ = self.tiles
        return 0, query.bytes, query.bytes + keys.bytes

    def emit(self) -> int:
        """Writes the body at the insertion point; returns how many blocks there are."""
        blocks = -(-self._count // self.rows)
        self.thread = memory.thread_number()
        number_ = memory.block_number()
        self._item, block = divmod(number_, blocks) if blocks > 1 else (number_, Int(0))
        if self.attention.band is not None:
            block = Int(blocks - 1) - block  # those that attend to most keys come first
        self._first = block * self.rows
        pointer = memory.shared_memory()
        self.shared = Shared(pointer, memory.shared_address(pointer))
        query, keys, values = (
            self._copies(name, lines, inner, place)
            for place, (name, lines, inner) in enumerate([("query", "gq", "d"), ("key", "k", "d"), ("value", "k", "v")])
        )
        query.start(self._first)
        query.finish()
        first, whole, end = self._tiles_seen()
        keys.start(first * self.keys)
        count = len(self.thread_rows())

        def turn(step: Int, state: Sequence[ir.Value], masked: bool) -> list[ir.Value]:
            key = step * self.keys
            keys.finish()
            gpu.barrier()
            values.start(key)
            weights, factors, ends = self._softmax(key, self.products(), state[: 2 * count], masked)
            self.share(weights)
            values.finish()
            gpu.barrier()
            keys.start(key + self.keys, (step + 1).below(end))
            return [*ends, *self.multiply(weights, factors, state[2 * count :])]

        state = [number(self.attention.start)] * count + [number(0.0)] * count + self.initial()
        if whole.known != first.known or whole.known is None:
            state = repeat(whole - first, state, lambda step, state: turn(first + step, state, False))
        if end.known != whole.known or whole.known is None:
            state = repeat(end - whole, state, lambda step, state: turn(whole + step, state, True))
        self._write(state[count : 2 * count], state[2 * count :])
        return blocks * self.attention.heads

    def _tiles_seen(self) -> tuple[Int, Int, Int]:
        """The first tile of keys that any row of the block attends to, the first that not all rows see whole, the end.

        Rows of the block are neighbouring queries of one head, unless heads have no whole number of blocks.
        """
        length, band = self.sizes["k"], self.attention.band
        tiles = -(-length // self.keys)
        if band is None:
            return Int(0), Int(length // self.keys), Int(tiles)
        if self.sizes["g"] > 1 and self.sizes["q"] % self.rows:
            return Int(0), Int(0), Int(tiles)
        query = self._first % self.sizes["q"] if self.sizes["g"] > 1 else self._first
        end = _smaller((query + (self.rows + band.after + self.keys - 1)) // self.keys, tiles)
        if band.before < length:
            first = (query - band.before).where(Int(band.before).below(query), 0) // self.keys
            return first, first, end
        return Int(0), _smaller((query + (band.after + 1)) // self.keys, length // self.keys), end

    def _copies(self, name: str, lines: str, inner: str, place: int) -> TileCopies:
        operand = getattr(self.attention, name)
        block = (self._item, self.thread, self.threads)
        where = (self._pointers[operand.base], self.shared, self.bases()[place])
        return TileCopies(operand, self.sizes, ("bh", lines, inner), self.tiles[place], block, where)

    def _reduced(self, value: ir.Value, combine: Combine) -> ir.Value:
        for bit in self.across():
            value = combine(value, from_lane(value, bit))
        return value

    def _softmax(
        self, key: Int, products: Rows, state: Sequence[ir.Value], masked: bool
    ) -> tuple[Rows, list[ir.Value], list[ir.Value]]:
        """Weights of products, the factors for earlier sums, and the greatest scores and totals."""
        attention, count = self.attention, len(products)
        plain = not attention.has_mask and attention.scale > 0
        softmax = Softmax(attention.scale if plain else None, lambda value: self._reduced(value, greater))
        weights, factors, greatest, totals = [], [], [], []
        keys = [key + place for place in self.thread_keys()]
        last = self.sizes["k"]
        inside = [place.below(last) if masked and last % self.keys else None for place in keys]
        for row, items in enumerate(products):
            places = self._row_places(row)
            scores = []
            for place, has, item in zip(keys, inside, items, strict=True):
                score = item
                if not plain:
                    score = arith.mulf(score, number(attention.scale))
                    score = self._scores.score(score, {**places, "k": place.where(has, last - 1)})
                seen = both(has, *self._in_band(places["q"], place)) if masked else None
                scores.append(score if seen is None else arith.select(seen, score, number(-math.inf)))
            made, factor, most, total = softmax.step(scores, state[row], state[count + row])
            weights.append(made)
            factors.append(factor)
            greatest.append(most)
            totals.append(total)
        return weights, factors, [*greatest, *totals]

    def _in_band(self, query: Int, key: Int) -> list[ir.Value]:
        """What must hold for a query to attend to a key."""
        band, length = self.attention.band, self.sizes["k"]
        if band is None:
            return []
        is_not_after = key.below(query + (band.after + 1))
        return [is_not_after, query.below(key + (band.before + 1))] if band.before < length else [is_not_after]

    def _row_places(self, row: int) -> dict[str, Int]:
        """Where each loop is of a row of this thread: past the last row, at the last."""
        number_ = self._first + self.thread_rows()[row]
        inside = number_.below(self._count) if self._count % self.rows else None
        number_ = number_.where(inside, self._count - 1)
        group, query = divmod(number_, self.sizes["q"]) if self.sizes["g"] > 1 else (Int(0), number_)
        batch, head = divmod(self._item, self.sizes["h"]) if self.sizes["h"] > 1 else (self._item, Int(0))
        return {"b": batch, "h": head, "g": group, "q": query}

    def _write(self, totals: Sequence[ir.Value], sums: Sequence[ir.Value]) -> None:
        """Divides and writes this thread's results."""
        attention = self.attention
        totals = [self._reduced(total, arith.addf) for total in totals]
        inverses = [evaluate(attention.inverse, [total, None]) for total in totals]
        output = Output(attention, self._pointers[attention.result.base], self._item)
        padded = self.sizes["v"] * element_bytes(attention.value.element) < self.tiles[2].row_bytes
        rows = [self._first + row for row in self.thread_rows()]
        for row, column, parts in self.results(sums):
            results = [evaluate(attention.last, [part, inverses[row], None]) for part in parts]
            with when(rows[row].below(self._count) if self._count % self.rows else None):
                output.write(rows[row], column, results, padded)


def _smaller(number_: Int, bound: int) -> Int:
    return number_.where(number_.below(bound), bound)
