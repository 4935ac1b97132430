"""Depthwise convolutions of bytes: each 32-bit lane sums the products of four neighbouring taps of its channel.

    %s = linalg.generic {(x, c, t): %s[x, c] += ui8 %a[x + t, c] * i8 %w[t, c]}
    // -->
    %a_0 = arith.extui (vector.transfer_read %a[%x, %c]) : vector<16xi8> to vector<16xi32>   // and %a_1 to %a_4
    %1 = %a_0 | %a_1 << 8 | %a_2 << 16 | %a_3 << 24
    %s_0 = llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%s, %1, %w_0 | %w_1 << 8 | %w_2 << 16 | %w_3 << 24)
    %2 = llvm.intr.fshr(%a_4, %1, 8)      // the same of the next position: all elements but one are there
    ...

Without an instruction for four bytes, two taps are multiplied as 16-bit integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, linalg, llvm

from ..builders.generics import splat
from ..builders.linear_forms import LinearIndex, factor_of
from .byte_products import add_pairs, add_products
from .tile_reads import Chunk, Indexing, Reader

_IN_PAIRS = "pairs"
_TOGETHER = {"dot": 4, "usdot": 4, "sdot": 4, _IN_PAIRS: 2}
"""Number of taps that an instruction multiplies, by the method of multiplying bytes."""

_WORD = 32
"""Bits of a lane."""

_MOST_TAPS = 9
"""Maximum number of taps along the innermost dimension, all of which are unrolled."""

_INPUT, _WEIGHT = 0, 1

_Place = tuple[int, ...]
"""Index of an element of the input, relative to what the tile's loops add to it."""


@dataclass(frozen=True)
class TapProduct:
    """The innermost taps of a depthwise convolution of bytes.

    Attributes:
        loops: the iteration space of the op, whose last dimension are these taps.
        method: method of multiplying bytes, see `byte_products.byte_step`.
        lanes: number of sums per vector register.
    """

    loops: Indexing
    method: str
    lanes: int

    @staticmethod
    def of(op: linalg.GenericOp, loops: Indexing, method: str, lanes: int) -> TapProduct | None:
        """Returns the taps of an op; None if it has another form, or if they are multiplied one by one."""
        if method not in _TOGETHER or len(loops.sizes) == loops.parallel or not _multiplies_bytes(op):
            return None
        tap, lane = len(loops.sizes) - 1, loops.parallel - 1
        places, weights = loops.exprs[_INPUT], loops.exprs[_WEIGHT]
        if not 1 < loops.sizes[tap] <= _MOST_TAPS or any(not _is_lane(exprs[-1], lane) for exprs in (places, weights)):
            return None
        moved = [axis for axis, expr in enumerate(places) if factor_of(expr, tap)]
        return TapProduct(loops, method, lanes) if len(moved) == 1 else None

    def step(
        self,
        reader: Reader,
        rows: Sequence[tuple[int, ...]],
        chunks: Sequence[Chunk],
        where: Mapping[int, LinearIndex],
        sums: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Returns the sums after the products of these taps for every row and vector.

        Args:
            reader: reads the operands.
            rows: rows of the tile.
            chunks: vectors of a row.
            where: indices of the other reduced dimensions.
            sums: sums so far, row by row.
        """
        results = list(sums)
        for column, chunk in enumerate(chunks):
            window = _Window(self, reader, chunk, where)
            window.read(rows)
            for number, row in enumerate(rows):
                at = number * len(chunks) + column
                for first in range(0, self.taps, self.together):
                    count = min(self.together, self.taps - first)
                    elements, weights = window.elements(row, first, count), window.weights(row, first, count)
                    if self.method == _IN_PAIRS:
                        results[at] = add_pairs(results[at], elements, weights, self.lanes)
                    else:
                        results[at] = add_products(results[at], elements, weights, self.method, self.lanes)
        return results

    @property
    def taps(self) -> int:
        """Number of taps."""
        return self.loops.sizes[-1]

    @property
    def together(self) -> int:
        """Number of taps that an instruction multiplies."""
        return _TOGETHER[self.method]


@dataclass
class _Window:
    """Words of neighbouring elements of the input and of the weight, for the vectors of one chunk."""

    product: TapProduct
    reader: Reader
    chunk: Chunk
    where: Mapping[int, LinearIndex]
    _elements: dict[_Place, ir.Value] = field(default_factory=dict)
    _words: dict[_Place, ir.Value] = field(default_factory=dict)
    _weights: dict[int, ir.Value] = field(default_factory=dict)

    def read(self, rows: Sequence[tuple[int, ...]]) -> None:
        """Reads the elements of all taps of some rows, each of which is extended once."""
        for row, tap in itertools.product(rows, range(self.product.taps)):
            place = self._place(row, tap)
            if place not in self._elements:
                self._elements[place] = self._extended(_INPUT, row, tap, is_signed=False)

    def elements(self, row: tuple[int, ...], first: int, count: int) -> ir.Value:
        """Returns `count` elements from a tap on in each lane; those after them are any."""
        places = [self._place(row, first + tap) for tap in range(self.product.together)]
        if count == 1:
            return self._elements[places[0]]
        if places[0] not in self._words:
            self._words[places[0]] = self._moved(row, first, places) or self._packed(places)
        return self._words[places[0]]

    def weights(self, row: tuple[int, ...], first: int, count: int) -> ir.Value:
        """Returns the weights of `count` taps in each lane, and zeros after them."""
        if first not in self._weights:
            parts = [self._extended(_WEIGHT, row, first + tap, is_signed=True) for tap in range(count)]
            mask = splat((1 << self._bits) - 1, parts[0].type)
            self._weights[first] = self._joined([arith.andi(part, mask) for part in parts])
        return self._weights[first]

    @property
    def _bits(self) -> int:
        return _WORD // self.product.together

    def _moved(self, row: tuple[int, ...], first: int, places: Sequence[_Place]) -> ir.Value | None:
        """Returns a word of which an earlier one holds the first elements, moved down; None if there is none."""
        for new in range(1, len(places)):
            known = self._words.get(self._place(row, first - new))
            if known is not None:
                count = splat(new * self._bits, known.type)
                fresh = self._packed(places[-new:])
                return arith.shrui(known, count) if fresh is None else llvm.intr_fshr(fresh, known, count)
        return None

    def _packed(self, places: Sequence[_Place]) -> ir.Value | None:
        """Returns the elements at some places from the lowest bits on, zeros where none is read; None if none is."""
        return self._joined([self._elements.get(place) for place in places])

    def _joined(self, parts: Sequence[ir.Value | None]) -> ir.Value | None:
        """Returns one word of some numbers, from the lowest bits on, with zeros for those that are missing."""
        word = None
        for number, part in enumerate(parts):
            if part is not None:
                moved = arith.shli(part, splat(number * self._bits, part.type)) if number else part
                word = moved if word is None else arith.ori(word, moved)
        return word

    def _extended(self, operand: int, row: tuple[int, ...], tap: int, *, is_signed: bool) -> ir.Value:
        value = self.reader.read(operand, row, self.chunk, {**self.where, len(self.product.loops.sizes) - 1: tap})
        kind = self.chunk.type(ir.IntegerType.get_signless(_WORD))
        return (arith.extsi if is_signed else arith.extui)(kind, value)

    def _place(self, row: tuple[int, ...], tap: int) -> _Place:
        """Returns where a tap of a row reads the input."""
        loops = self.product.loops
        return loops.starts(_INPUT, {**dict(enumerate(row)), len(loops.sizes) - 1: tap})


def _multiplies_bytes(op: linalg.GenericOp) -> bool:
    """Returns whether an op adds products of an unsigned and a signed byte to sums of 32 bits."""
    left, right, total = op.regions[0].blocks[0].arguments
    names = [(item.operation.name, *item.operation.operands) for item in op.regions[0].blocks[0].operations]
    if [name for name, *_ in names] != ["arith.extui", "arith.extsi", "arith.muli", "arith.addi", "linalg.yield"]:
        return False
    return [names[0][1], names[1][1], names[3][1]] == [left, right, total]


def _is_lane(expr: ir.AffineExpr, lane: int) -> bool:
    return isinstance(expr, ir.AffineDimExpr) and expr.position == lane
