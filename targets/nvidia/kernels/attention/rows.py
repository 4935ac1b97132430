"""Work of a thread on its rows of an attention: masks of keys, softmax, and writing the result."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from ...emission.bodies import evaluate
from ...emission.launch import LaunchContext
from ...instructions import memory
from ...instructions.integers import Int
from ...instructions.loops import when
from ..contraction.index_paths import unravelled
from ..rows.exchange import CombineValues, from_lane
from .elements import Scores
from .output import AttentionOutput
from .problem import Attention
from .softmax import Softmax, greater, number

_NEIGHBOURS = 2
"""Number of neighbouring keys whose scores a thread holds together, if it holds any."""

RowValues = list[list[ir.Value]]
"""Values of each row of a thread."""


class AttentionRows(ABC):
    """A block of `threads` threads that computes `rows` rows of the result, in tiles of `keys` keys.

    Attributes:
        items: the loops distributed over blocks.
        lines: the loops over rows.
    """

    threads: int
    rows: int
    keys: int
    items = "bhp"
    lines = "gq"

    def __init__(self, attention: Attention, launch: LaunchContext) -> None:
        """Prepares for the kernel of a launch."""
        self.attention, self.sizes = attention, attention.sizes
        self.pointers = {item.base: memory.global_memory(item.base) for item in launch.arguments.values()}
        self.thread = memory.thread_number()
        self._count = self._extent(self.lines)
        self._scores = Scores(attention, self.pointers)

    @abstractmethod
    def thread_rows(self) -> list[Int]:
        """Returns the rows of this thread, relative to the block."""

    @abstractmethod
    def thread_keys(self) -> tuple[Int, list[int]]:
        """Returns the first key of this thread in a tile, and the offsets of all its keys from the first."""

    @abstractmethod
    def across(self) -> list[int]:
        """Returns the bits of the lane number in which the lanes of one row differ."""

    @abstractmethod
    def results(self, sums: Sequence[ir.Value]) -> list[tuple[int, Int, list[ir.Value]]]:
        """Returns the sums as (row of the thread, first column, neighbouring sums)."""

    @property
    @abstractmethod
    def padded(self) -> bool:
        """True if sums extend past the last column of the result."""

    @property
    def _is_plain(self) -> bool:
        """True if the softmax takes unscaled products, so that its maximum is unscaled too."""
        return not self.attention.has_mask and self.attention.scale > 0

    @property
    def row_blocks(self) -> int:
        """Number of blocks of `rows` rows, over all items."""
        return -(-self._count // self.rows) * self._extent(self.items)

    def place(self, number_: Int) -> None:
        """Selects the rows of the row block with that number."""
        blocks = -(-self._count // self.rows)
        self.item, block = divmod(number_, blocks) if blocks > 1 else (number_, Int(0))
        if self.attention.band is not None:
            block = Int(blocks - 1) - block  # blocks with the most keys start first
        self.first = block * self.rows

    def tiles_seen(self) -> tuple[Int, Int, Int]:
        """Returns the first tile that any row attends to, the first tile that some rows see only in part, and the end.

        Rows of the block are neighbouring queries of one head, unless a block can span several heads.
        """
        length, band = self.sizes["k"], self.attention.band
        tiles = -(-length // self.keys)
        if self.attention.part:
            each = self.attention.part // self.keys
            first = self.item % self.sizes["p"] * each
            end = smaller(first + each, tiles)
            return first, smaller(end, length // self.keys), end
        if band is None:
            return Int(0), Int(length // self.keys), Int(tiles)
        shared = "g" in self.lines and self.sizes["g"] > 1
        if shared and self.sizes["q"] % self.rows:
            return Int(0), Int(0), Int(tiles)
        query = self.first % self.sizes["q"] if shared else self.first
        end = smaller((query + (self.rows + band.after + self.keys - 1)) // self.keys, tiles)
        if self.attention.hides_before:
            first = (query - band.before).where(Int(band.before).below(query), 0) // self.keys
            return first, first, end
        return Int(0), smaller((query + (band.after + 1)) // self.keys, length // self.keys), end

    def softmax(
        self, key: Int, products: RowValues, state: Sequence[ir.Value], masked: bool
    ) -> tuple[RowValues, list[ir.Value], list[ir.Value]]:
        """Processes one more tile of products.

        Args:
            key: the tile's first key.
            products: products of query and keys, for each row of the thread.
            state: the maximum scores so far, and the totals.
            masked: whether some keys may be hidden from some rows.

        Returns:
            The weights, the factors for earlier sums, and the new state.
        """
        attention, count = self.attention, len(products)
        plain = self._is_plain
        softmax = Softmax(attention.scale if plain else None, lambda value: self._reduced(value, greater))
        weights, factors, greatest, totals = [], [], [], []
        first, steps = self.thread_keys()
        start, ragged = key + first, masked and self.sizes["k"] % self.keys != 0
        for row, items in enumerate(products):
            places = self._row_places(row)
            scores = items if plain else self._masked(items, places, start, ragged)
            limits = self._conditions(places["q"], start, steps, masked)
            scores = [
                score if seen is None else arith.select(seen, score, number(-math.inf))
                for score, seen in zip(scores, limits, strict=True)
            ]
            made, factor, most, total = softmax.step(scores, state[row], state[count + row])
            weights.append(made)
            factors.append(factor)
            greatest.append(most)
            totals.append(total)
        return weights, factors, [*greatest, *totals]

    def _masked(self, products: Sequence[ir.Value], places: dict[str, Int], start: Int, ragged: bool) -> list[ir.Value]:
        """Computes the scores of a row's products, those of neighbouring keys together.

        If the keys end within a tile, the products past the end get scores of other keys, which are masked later.
        """
        _, steps = self.thread_keys()
        length, scale = self.sizes["k"], number(self.attention.scale)
        pairs = len(steps) > 1 and steps[1] == 1 and length % _NEIGHBOURS == 0
        count, scores = _NEIGHBOURS if pairs else 1, []
        for first in range(0, len(steps), count):
            key = start + steps[first]
            key = smaller(key, length - count) if ragged else key
            scaled = [arith.mulf(item, scale) for item in products[first : first + count]]
            scores += self._scores.scores(scaled, {**places, "k": key})
        return scores

    def write(self, state: Sequence[ir.Value], sums: Sequence[ir.Value]) -> None:
        """Divides and writes this thread's results.

        Args:
            state: the maximum scores, and the totals.
            sums: sums of weights times values.
        """
        attention, count = self.attention, len(state) // 2
        totals = [self._reduced(total, arith.addf) for total in state[count:]]
        if attention.inverse is None:
            self._write_part(state[:count], totals, sums)
            return
        inverses = [evaluate(attention.inverse, [total, None]) for total in totals]
        pointer = self.pointers[attention.result.base]
        output = AttentionOutput(attention, pointer, (self.items, self.lines), self.item)
        rows = [self.first + row for row in self.thread_rows()]
        for row, column, parts in self.results(sums):
            results = [evaluate(attention.last, [part, inverses[row], None]) for part in parts]
            with when(rows[row].below(self._count) if self._count % self.rows else None):
                output.write(rows[row], column, results, self.padded)

    def _write_part(self, greatest: Sequence[ir.Value], totals: Sequence[ir.Value], sums: Sequence[ir.Value]) -> None:
        """Writes a partial result, to be combined with other parts."""
        attention = self.attention
        pointer = self.pointers[attention.result.base]
        output = AttentionOutput(attention, pointer, (self.items, self.lines), self.item)
        rows = [self.first + row for row in self.thread_rows()]
        first, _ = self.thread_keys()
        if self._is_plain:
            greatest = [arith.mulf(item, number(attention.scale)) for item in greatest]
        ragged = self._count % self.rows != 0
        for row, column, parts in self.results(sums):
            with when(rows[row].below(self._count) if ragged else None):
                output.write(rows[row], column, parts, self.padded)
        for row, numbers in zip(rows, zip(greatest, totals, strict=True), strict=True):
            with when(first.equals(0)), when(row.below(self._count) if ragged else None):
                output.write(row, Int(self.sizes["v"]), [*numbers, number(0.0), number(0.0)], False)

    def _extent(self, letters: str) -> int:
        return math.prod(self.sizes[letter] for letter in letters)

    def _reduced(self, value: ir.Value, combine: CombineValues) -> ir.Value:
        for bit in self.across():
            value = combine(value, from_lane(value, bit))
        return value

    def _conditions(self, query: Int, start: Int, steps: Sequence[int], masked: bool) -> list[ir.Value | None]:
        """Returns, per step from `start`, the condition that the query attends to the key; None if it always does."""
        band, length = self.attention.band, self.sizes["k"]
        if not masked or (band is None and length % self.keys == 0):
            return [None] * len(steps)
        # Steps are constants, so that each needs one comparison with a bound computed once per row.
        end = Int(length) if band is None else smaller(query + (band.after + 1), length)
        reach = _above(end, start)
        seen = [Int(step).below(reach) for step in steps]
        if band is None or not self.attention.hides_before:
            return [*seen]
        hidden = _above(_above(query, Int(band.before)), start)
        return [arith.andi(item, hidden.below(step + 1)) for item, step in zip(seen, steps, strict=True)]

    def _row_places(self, row: int) -> dict[str, Int]:
        """Returns the loop indices of a row of this thread, clamped to the last row."""
        number_ = self.first + self.thread_rows()[row]
        inside = number_.below(self._count) if self._count % self.rows else None
        places: dict[str, Int] = {}
        for letters, place in ((self.items, self.item), (self.lines, number_.where(inside, self._count - 1))):
            places |= zip(letters, unravelled(place, [self.sizes[letter] for letter in letters]), strict=True)
        return places


def smaller(number_: Int, bound: Int | int) -> Int:
    """Returns the smaller of two numbers."""
    bound = Int(bound)
    if number_.known is not None and bound.known is not None:
        return Int(min(number_.known, bound.known))
    return number_.where(number_.below(bound), bound)


def _above(number_: Int, start: Int) -> Int:
    """Returns how far a number is above `start`, or 0 if it is not."""
    return (number_ - start).where(start.below(number_), 0)
