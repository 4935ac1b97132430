"""Products with numbers of few bits in register tiles: a block of the reduction is summed before it is scaled.

%s = linalg.generic {(m, p, l, b, w, h, c):
    %s[m, p, l] += %a[m, b, w, h, c] * (number(h, %w[p, b, w, 4 * l + c]) - 8) * %f[p, b, l]}
// -->
scf.for %b .. iter_args(%s) {
  for each word:
    %1 = vector.transfer_read %w[p, %b, w, 0] : vector<16xi32>
    %2 = (%1 >> 4 * h) & 0x0F0F0F0F            // for h in 0, 1
    %0 += four products per lane of %2 and %a[m, %b, w, h]
  %s += (%0 - 8 * %sums[m, %b]) * %f[p, %b]
}
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, vector

from ...dialects.stepwell.blocks import GRAIN
from ...machines.block_tiles import BlockWork, scales_sums
from ...passes.ir.values import constant_index
from ..builders.generics import splat
from ..builders.linear_forms import LinearForm, LinearIndex
from .byte_products import add_products, add_shorts, joined, shorts_of, slice_of, widen_shorts
from .tile_reads import Chunk, Reader, registers_of, resized

# Positions of the operands of the op.
INPUT, WEIGHT, _SUMS, _SCALES = range(4)

# Number of 32-bit lanes of the narrowest registers; a vector with fewer lanes is a part of a register.
_FEWEST_LANES = 4

_Row = tuple[int, ...]
_Totals = dict[tuple[_Row, Chunk], ir.Value]
AddWord = Callable[[Reader, Mapping[int, LinearIndex], Sequence[Chunk], _Totals], None]


@dataclass(frozen=True)
class BlockProduct:
    """A product with numbers of few bits.

    Attributes:
        bits: bits in which a number is stored.
        middle: the number that stands for 0 if no operand holds zero points.
        dims: the reduced dimensions within a block: word, part of a byte, byte.
        words: number of words of a block.
        has_zeros: whether an operand holds the zero points.
        has_factors: whether an operand gives factors of the blocks of rows, which then hold bytes.
        bytes_method: method of multiplying bytes, see `byte_step`.
        lanes: number of elements per vector register.
    """

    bits: int
    middle: int
    dims: tuple[int, int, int]
    words: int
    has_zeros: bool
    has_factors: bool
    bytes_method: str
    lanes: int

    def step(
        self,
        reader: Reader,
        rows: Sequence[_Row],
        chunks: Sequence[Chunk],
        where: Mapping[int, LinearIndex],
        sums: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Returns the sums after one more block of the reduction for every row and column."""
        split = {chunk: registers_of(chunk, self.lanes, _FEWEST_LANES) for chunk in chunks}
        parts = list(itertools.chain(*split.values()))
        carried: _Totals = {}
        for (row, chunk), value in zip(itertools.product(rows, chunks), sums, strict=True):
            for part in split[chunk]:
                carried[row, part] = resized(slice_of(value, part.start - chunk.start, part.lanes), part.lanes)
        work = BlockWork(self.bits, self.words * 32 // self.bits, self.has_factors)
        if scales_sums(work, len(rows)):
            results = self._scaled_sums(reader, rows, parts, where, carried)
        else:
            results = self._scaled_numbers(reader, rows, parts, where, carried)
        return [
            joined([resized(results[row, part], min(part.lanes, chunk.lanes)) for part in split[chunk]])
            for row, chunk in itertools.product(rows, chunks)
        ]

    def _scaled_sums(
        self,
        reader: Reader,
        rows: Sequence[_Row],
        parts: Sequence[Chunk],
        where: Mapping[int, LinearIndex],
        carried: _Totals,
    ) -> _Totals:
        """Multiplies rows with numbers, and scales the sums of the block."""
        if self.has_factors:
            totals = self._sums_of_bytes(reader, rows, parts, where)
            for row, part in totals:
                totals[row, part] = self.finished(totals[row, part], reader, row, part, where)
        else:
            starts = {(row, part): self._start(reader, row, part, where) for row in rows for part in parts}
            totals = self._run(reader, rows, parts, where, self._floats, range(self.words), starts)
        scales = {part: self.scale(reader, rows[0], part, where) for part in parts}
        return {place: vector.fma(total, scales[place[1]], carried[place]) for place, total in totals.items()}

    def finished(
        self, total: ir.Value, reader: Reader, row: _Row, part: Chunk, where: Mapping[int, LinearIndex]
    ) -> ir.Value:
        """Returns the sum of a block of a row of bytes as floats, without the factors of the columns."""
        factor = reader.read(_SCALES + 1 + self.has_zeros, row, part, where)
        return vector.fma(arith.sitofp(factor.type, total), factor, self._start(reader, row, part, where))

    def _scaled_numbers(
        self,
        reader: Reader,
        rows: Sequence[_Row],
        parts: Sequence[Chunk],
        where: Mapping[int, LinearIndex],
        carried: _Totals,
    ) -> _Totals:
        """Scales the numbers instead of the sums, which is faster if each number is multiplied by many rows."""
        scales = {part: self.scale(reader, rows[0], part, where) for part in parts}
        starts = {
            part: arith.negf(arith.mulf(scales[part], self._zero(reader, rows[0], part, where))) for part in parts
        }

        def scaled(part: Chunk, numbers: ir.Value) -> ir.Value:
            return vector.fma(numbers, scales[part], starts[part])

        def add(inner: Reader, where: Mapping[int, LinearIndex], group: Sequence[Chunk], totals: _Totals) -> None:
            self._floats(inner, where, group, totals, scaled)

        return self._run(reader, rows, parts, where, add, range(self.words), carried)

    def _floats(
        self,
        reader: Reader,
        where: Mapping[int, LinearIndex],
        group: Sequence[Chunk],
        totals: _Totals,
        scaled: Callable[[Chunk, ir.Value], ir.Value] = lambda _, numbers: numbers,
    ) -> None:
        """Adds the products of a word with floats."""
        rows = _rows_of(totals)
        for place, words in self._parts(reader, rows[0], where, group):
            for byte in range(GRAIN):
                numbers = {part: scaled(part, self._number(words[part], place, byte)) for part in group}
                for row, part in itertools.product(rows, group):
                    value = reader.read(INPUT, row, part, {**place, self.dims[2]: byte})
                    totals[row, part] = vector.fma(value, numbers[part], totals[row, part])

    def _bytes(self, reader: Reader, where: Mapping[int, LinearIndex], group: Sequence[Chunk], totals: _Totals) -> None:
        """Adds the products of a word with bytes."""
        rows = _rows_of(totals)
        for place, words in self._parts(reader, rows[0], where, group):
            number = place[self.dims[1]]
            assert isinstance(number, int)
            numbers = {part: self.numbers(words[part], number) for part in group}
            for row in rows:
                grain = reader.grain(INPUT, row, place, GRAIN)
                for part in group:
                    word = vector.broadcast(numbers[part].type, grain)
                    if self._shorts:
                        totals[row, part] = add_shorts(totals[row, part], numbers[part], word, self.lanes)
                    else:
                        totals[row, part] = add_products(
                            totals[row, part], numbers[part], word, self.bytes_method, self.lanes, self.bits
                        )

    @property
    def _shorts(self) -> int:
        """Number of products of bytes that are summed in 16 bits; 0 if sums have 32 bits from the start."""
        return shorts_of(self.bits, self.bytes_method, self.lanes)

    def _sums_of_bytes(
        self, reader: Reader, rows: Sequence[_Row], parts: Sequence[Chunk], where: Mapping[int, LinearIndex]
    ) -> _Totals:
        """Returns the sums of the products of bytes and numbers."""
        places = list(itertools.product(rows, parts))
        totals = {(row, part): splat(0, part.type(ir.IntegerType.get_signless(32))) for row, part in places}
        if not self._shorts:
            return self._run(reader, rows, parts, where, self._bytes, range(self.words), totals)
        short = ir.IntegerType.get_signless(16)
        zeros = {part: splat(0, ir.VectorType.get([2 * part.lanes], short)) for part in parts}
        words = max(1, self._shorts * self.bits // 8)
        for start in range(0, self.words, words):
            run = range(start, min(self.words, start + words))
            sums = self._run(reader, rows, parts, where, self._bytes, run, {place: zeros[place[1]] for place in places})
            totals = {place: widen_shorts(totals[place], sums[place], self.lanes) for place in places}
        return totals

    def _run(
        self,
        reader: Reader,
        rows: Sequence[_Row],
        parts: Sequence[Chunk],
        where: Mapping[int, LinearIndex],
        add: AddWord,
        words: range,
        totals: _Totals,
    ) -> _Totals:
        """Returns the sums after a run of words.

        With several rows it is a loop, so that LLVM does not unpack all words before it multiplies the first one. With
        one row, each vector of words is multiplied before the next one is read.
        """
        if len(rows) == 1 or len(words) == 1:
            totals = dict(totals)
            for word, part in itertools.product(words, parts):
                one = {(row, part): totals[row, part] for row in rows}
                add(reader, {**where, self.dims[0]: word}, [part], one)
                totals |= one
            return totals
        loop = scf.ForOp(constant_index(0), constant_index(len(words)), constant_index(1), list(totals.values()))
        with ir.InsertionPoint(loop.body):
            at: LinearForm = (words.start, ((loop.induction_variable, 1),))
            inside = dict(zip(totals, loop.inner_iter_args, strict=True))
            add(reader.inner(), {**where, self.dims[0]: at}, parts, inside)
            scf.YieldOp([inside[place] for place in totals])
        return dict(zip(totals, loop.results, strict=True))

    def _parts(
        self, reader: Reader, row: _Row, where: Mapping[int, LinearIndex], group: Sequence[Chunk]
    ) -> Iterator[tuple[dict[int, LinearIndex], dict[Chunk, ir.Value]]]:
        """Yields the reduction indices of each part of the bytes of a word, with the words by vector."""
        words = {part: reader.grains(WEIGHT, row, part, {**where, self.dims[2]: 0}, GRAIN) for part in group}
        for place in range(8 // self.bits):
            yield {**where, self.dims[1]: place}, words

    def _number(self, words: ir.Value, place: Mapping[int, LinearIndex], byte: int) -> ir.Value:
        """The numbers in one part of one byte of a vector of words, as floats."""
        part, mask = place[self.dims[1]], (1 << self.bits) - 1
        assert isinstance(part, int)
        numbers = arith.andi(_right(words, 8 * byte + self.bits * part), splat(mask, words.type))
        floats = ir.VectorType.get(ir.VectorType(words.type).shape, ir.F32Type.get())
        return arith.sitofp(floats, numbers)

    def numbers(self, words: ir.Value, part: int) -> ir.Value:
        """Returns the numbers in one part of all bytes of a vector of words, as bytes."""
        if self.bits == 8:
            return words
        spread = sum(((1 << self.bits) - 1) << (8 * byte) for byte in range(GRAIN))
        return arith.andi(_right(words, self.bits * part), splat(spread, words.type))

    def _start(self, reader: Reader, row: _Row, part: Chunk, where: Mapping[int, LinearIndex]) -> ir.Value:
        """The sum of a block before its first product: minus the sum of the row times the zero point."""
        total = reader.read(_SUMS, row, part, where)
        return arith.mulf(arith.negf(total), self._zero(reader, row, part, where))

    def _zero(self, reader: Reader, row: _Row, part: Chunk, where: Mapping[int, LinearIndex]) -> ir.Value:
        """The zero points."""
        kind = part.type(ir.F32Type.get())
        if not self.has_zeros:
            return splat(self.middle, kind)
        zero = reader.read(_SCALES + 1, row, part, where)
        if isinstance(ir.VectorType(zero.type).element_type, ir.FloatType):
            return zero if zero.type == kind else arith.extf(kind, zero)
        return arith.sitofp(kind, arith.extui(part.type(ir.IntegerType.get_signless(32)), zero))

    def scale(self, reader: Reader, row: _Row, part: Chunk, where: Mapping[int, LinearIndex]) -> ir.Value:
        """Returns the factors of the columns."""
        scale, kind = reader.read(_SCALES, row, part, where), part.type(ir.F32Type.get())
        return scale if scale.type == kind else arith.extf(kind, scale)


def _rows_of(totals: _Totals) -> list[_Row]:
    return list(dict.fromkeys(row for row, _ in totals))


def _right(value: ir.Value, bits: int) -> ir.Value:
    return arith.shrui(value, splat(bits, value.type)) if bits else value
