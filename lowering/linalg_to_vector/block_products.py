"""Products with numbers of few bits in register tiles: a block of the reduction is summed before it is scaled.

%s = linalg.generic {(m, p, l, b, w, h, c):
    %s[m, p, l] += %a[m, b, w, h, c] * (number(h, %w[p, b, w, 4 * l + c]) - 8) * %f[p, b, l]}
// -->
scf.for %b .. iter_args(%s) {
  %0 = -8 * %sums[m, %b]                       // the same in all lanes
  for each word:
    %1 = vector.transfer_read %w[p, %b, w, 0] : vector<16xi32>
    %2 = (%1 >> 4 * h) & 0x0F0F0F0F            // for h in 0, 1
    %0 += four products per lane of %2 and %a[m, %b, w, h]
  %s += %0 * %f[p, %b]
}
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, vector

from ...dialects.stepwell.blocks import GRAIN
from ..builders.linear_forms import Place
from .byte_products import add_products, add_shorts, shorts_of, widen_shorts
from .tile_reads import Chunk, Reader

# With this many rows, numbers are scaled rather than sums: each is multiplied that often.
_SHARED_ROWS = 3

# Positions of the operands of the op.
_INPUT, _WEIGHT, _SUMS, _SCALES = range(4)


@dataclass(frozen=True)
class BlockProduct:
    """A product with numbers of few bits.

    Attributes:
        bits: bits of a number.
        dims: the reduced dimensions within a block: word, part of a byte, byte.
        words: number of words of a block.
        has_zeros: whether an operand gives the numbers that stand for 0.
        has_factors: whether an operand gives factors of the blocks of rows, which then hold bytes.
        bytes_method: method of multiplying bytes, see `byte_step`.
        lanes: number of elements per vector register.
    """

    bits: int
    dims: tuple[int, int, int]
    words: int
    has_zeros: bool
    has_factors: bool
    bytes_method: str
    lanes: int

    def step(
        self,
        reader: Reader,
        rows: Sequence[tuple[int, ...]],
        chunks: Sequence[Chunk],
        where: Mapping[int, Place],
        sums: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Returns the sums after one more block of every row and column."""
        if not self.has_factors and len(rows) >= _SHARED_ROWS:
            return self._scaled_numbers(reader, rows, chunks, where, sums)
        totals = {(row, chunk): self._start(reader, row, chunk, where) for row in rows for chunk in chunks}
        short = _Shorts(shorts_of(self.bits, self.bytes_method, self.lanes) if self.has_factors else 0, self.lanes)
        for place, chunk, words in self._words(reader, rows, chunks, where):
            if self.has_factors:
                self._add_bytes(reader, rows, chunk, place, words, totals, short)
                continue
            for byte, numbers in self._numbers(words, place):
                for row in rows:
                    value = reader.read(_INPUT, row, chunk, {**place, self.dims[2]: byte})
                    totals[row, chunk] = vector.fma(value, numbers, totals[row, chunk])
        short.flush(totals)
        carried, results = iter(sums), []
        for row, chunk in itertools.product(rows, chunks):
            scale = self._scale(reader, row, chunk, where)
            total = totals[row, chunk]
            if self.has_factors:
                factor = reader.read(_SCALES + 1 + self.has_zeros, row, chunk, where)
                scale, total = arith.mulf(scale, factor), arith.sitofp(scale.type, total)
            results.append(vector.fma(total, scale, next(carried)))
        return results

    def _scaled_numbers(
        self,
        reader: Reader,
        rows: Sequence[tuple[int, ...]],
        chunks: Sequence[Chunk],
        where: Mapping[int, Place],
        sums: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Scales the numbers instead of the sums, which pays if several rows are multiplied by each number."""
        totals = dict(zip(itertools.product(rows, chunks), sums, strict=True))
        scales = {chunk: self._scale(reader, rows[0], chunk, where) for chunk in chunks}
        starts = {
            chunk: arith.negf(arith.mulf(scales[chunk], self._zero(reader, rows[0], chunk, where))) for chunk in chunks
        }
        for place, chunk, words in self._words(reader, rows, chunks, where):
            for byte, numbers in self._numbers(words, place):
                scaled = vector.fma(numbers, scales[chunk], starts[chunk])
                for row in rows:
                    value = reader.read(_INPUT, row, chunk, {**place, self.dims[2]: byte})
                    totals[row, chunk] = vector.fma(value, scaled, totals[row, chunk])
        return list(totals.values())

    def _words(
        self, reader: Reader, rows: Sequence[tuple[int, ...]], chunks: Sequence[Chunk], where: Mapping[int, Place]
    ) -> Iterator[tuple[dict[int, Place], Chunk, ir.Value]]:
        """Yields each part of the bytes of each vector of words: its place, its chunk and the words."""
        word_dim, part_dim, byte_dim = self.dims
        for number, chunk in itertools.product(range(self.words), chunks):
            inside = {**where, word_dim: number}
            words = reader.grains(_WEIGHT, rows[0], chunk, {**inside, byte_dim: 0}, GRAIN)
            for part in range(8 // self.bits):
                yield {**inside, part_dim: part}, chunk, words

    def _numbers(self, words: ir.Value, place: Mapping[int, Place]) -> Iterator[tuple[int, ir.Value]]:
        """Yields the numbers in one part of each byte of a vector of words, as floats."""
        part, mask = place[self.dims[1]], (1 << self.bits) - 1
        assert isinstance(part, int)
        for byte in range(GRAIN):
            numbers = arith.andi(_right(words, 8 * byte + self.bits * part), _splat(words.type, mask))
            floats = ir.VectorType.get(ir.VectorType(words.type).shape, ir.F32Type.get())
            yield byte, arith.sitofp(floats, numbers)

    def _start(self, reader: Reader, row: tuple[int, ...], chunk: Chunk, where: Mapping[int, Place]) -> ir.Value:
        """The sum of a block before its first product: minus the sum of the row times the number that stands for 0."""
        total = reader.read(_SUMS, row, chunk, where)
        kind = ir.VectorType(total.type)
        zero = self._zero(reader, row, chunk, where, kind)
        if isinstance(kind.element_type, ir.FloatType):
            return arith.negf(arith.mulf(total, zero))
        return arith.subi(_splat(kind, 0), arith.muli(total, zero))

    def _zero(
        self,
        reader: Reader,
        row: tuple[int, ...],
        chunk: Chunk,
        where: Mapping[int, Place],
        kind: ir.Type | None = None,
    ) -> ir.Value:
        """The numbers that stand for 0, as f32 unless `kind` is another vector type."""
        kind = kind or chunk.type(ir.F32Type.get())
        if not self.has_zeros:
            return _splat(kind, 1 << (self.bits - 1))
        wide = arith.extui(chunk.type(ir.IntegerType.get_signless(32)), reader.read(_SCALES + 1, row, chunk, where))
        return wide if wide.type == kind else arith.uitofp(kind, wide)

    def _scale(self, reader: Reader, row: tuple[int, ...], chunk: Chunk, where: Mapping[int, Place]) -> ir.Value:
        scale, kind = reader.read(_SCALES, row, chunk, where), chunk.type(ir.F32Type.get())
        return scale if scale.type == kind else arith.extf(kind, scale)

    def _add_bytes(
        self,
        reader: Reader,
        rows: Sequence[tuple[int, ...]],
        chunk: Chunk,
        place: Mapping[int, Place],
        words: ir.Value,
        totals: Totals,
        short: _Shorts,
    ) -> None:
        """Adds the products of one part of all bytes of a vector of words."""
        part, kind = place[self.dims[1]], words.type
        assert isinstance(part, int)
        spread = sum(((1 << self.bits) - 1) << (8 * byte) for byte in range(GRAIN))
        numbers = words if self.bits == 8 else arith.andi(_right(words, self.bits * part), _splat(kind, spread))
        for row in rows:
            word = vector.broadcast(kind, reader.grain(_INPUT, row, place, GRAIN))
            if short.most:
                short.add((row, chunk), numbers, word, totals)
            else:
                totals[row, chunk] = add_products(
                    totals[row, chunk], numbers, word, self.bytes_method, self.lanes, self.bits
                )


Totals = dict[tuple[tuple[int, ...], Chunk], ir.Value]


@dataclass
class _Shorts:
    """Sums of products of bytes in 16 bits, which are added to those in 32 bits before they may overflow.

    Attributes:
        most: maximum number of products in a sum.
        lanes: number of elements per vector register.
    """

    most: int
    lanes: int
    _sums: dict = field(default_factory=dict)

    def add(self, place: tuple, numbers: ir.Value, word: ir.Value, totals: Totals) -> None:
        """Adds products to the sum at a place."""
        total, count = self._sums.pop(place, (None, 0))
        self._sums[place] = add_shorts(total, numbers, word, self.lanes), count + 1
        if count + 1 == self.most:
            self._widen(place, totals)

    def flush(self, totals: Totals) -> None:
        """Adds all sums to those in 32 bits."""
        for place in list(self._sums):
            self._widen(place, totals)

    def _widen(self, place: tuple, totals: Totals) -> None:
        totals[place] = widen_shorts(totals[place], self._sums.pop(place)[0], self.lanes)


def _right(value: ir.Value, bits: int) -> ir.Value:
    return arith.shrui(value, _splat(value.type, bits)) if bits else value


def _splat(kind: ir.Type, number: int) -> ir.Value:
    element = ir.VectorType(kind).element_type
    if isinstance(element, ir.FloatType):
        value: ir.Attribute = ir.FloatAttr.get(element, float(number))
    else:
        value = ir.IntegerAttr.get(element, number)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, value))
