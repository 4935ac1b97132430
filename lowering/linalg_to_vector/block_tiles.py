"""Products with numbers of few bits in the tile registers of a matrix unit (AMX): sums of blocks, which vectors scale.

    %s = linalg.generic {(m, p, l, b, w, h, c):
        %s[m, p, l] += %a[m, b, w, h, c] * (number(h, %w[p, b, w, 4 * l + c]) - 8) * %f[p, b, l]}
    // -->
    scf.for %b .. iter_args(%s) {
      for each word and each h: %numbers[2 * w + h] = (%w[p, %b, w] >> 4 * h) & 0x0F0F0F0F
      %t = vector.contract (arith.extsi %a[m, %b]) (arith.extui %numbers) 0
      vector.transfer_write %t, %sums
      for each row: %s[m] += (%sums[m] - 8 * %sums_of_a[m, %b]) * %f[p, %b]
    }

Results are those of `block_products` to the last bit: sums of blocks are exact, and are scaled by the same operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, tensor, vector

from ...dialects.stepwell.blocks import GRAIN
from ...machines.matrix_units import LINE_BYTES, ROWS, divisor
from ...passes.ir.values import constant_index
from ..builders.generics import splat
from ..builders.linear_forms import LinearIndex, linear_index
from .block_products import INPUT, WEIGHT, BlockProduct
from .byte_products import joined, slice_of
from .matrix_tiles import contract_tiles, read_part, read_whole, row_dim, widened
from .tile_reads import Chunk, Indexing, Reader, registers_of

_LANES = LINE_BYTES // GRAIN
"""Columns of a tile."""

_PRODUCTS = 4
"""Number of products at once, each of which takes a register for its sums: the others are for operands."""

_Row = tuple[int, ...]
_Where = Mapping[int, LinearIndex]


@dataclass(frozen=True)
class BlockTiles:
    """A product of a register tile whose blocks a matrix unit multiplies.

    Attributes:
        product: the product.
        loops: how the op indexes its operands.
        chunks: the vectors of a row.
        dim: the dimension whose indices are the rows of a tile.
        blocks: number of blocks of a step.
    """

    product: BlockProduct
    loops: Indexing
    chunks: Sequence[Chunk]
    dim: int
    blocks: int

    @staticmethod
    def of(product: BlockProduct, loops: Indexing, chunks: Sequence[Chunk]) -> BlockTiles | None:
        """Returns the product in tiles; None if its blocks or its columns are not whole tiles."""
        dim = row_dim(loops)
        grains = product.words * 8 // product.bits
        is_whole = grains <= ROWS or grains % ROWS == 0
        if dim is None or not product.has_factors or not is_whole or any(chunk.used % _LANES for chunk in chunks):
            return None
        tiles = sum(chunk.used // _LANES for chunk in chunks)
        products = tiles * -(-grains // ROWS)
        blocks = divisor(loops.sizes[product.dims[0] - 1], _PRODUCTS // products)
        return BlockTiles(product, loops, chunks, dim, blocks)

    def step(self, reader: Reader, rows: Sequence[_Row], where: _Where, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Returns the sums after a number of blocks of the reduction for every row and column."""
        block = self.product.dims[0] - 1
        start, terms = linear_index(where[block])
        scaled = tuple((value, count * self.blocks) for value, count in terms)
        places: list[_Where] = [
            {**where, block: (start * self.blocks + number, scaled)} for number in range(self.blocks)
        ]
        parts = [part for chunk in self.chunks for part in registers_of(chunk, _LANES, _LANES)]
        totals = {}
        for (row, chunk), value in zip(itertools.product(rows, self.chunks), sums, strict=True):
            for part in registers_of(chunk, _LANES, _LANES):
                totals[row, part] = slice_of(value, part.start - chunk.start, _LANES)
        weights = {
            (number, part): self._weight(reader, rows[0], part, place)
            for number, place in enumerate(places)
            for part in parts
        }
        for some in self._groups(rows):
            self._add(reader, some, places, weights, totals)
        return [
            joined([totals[row, part] for part in registers_of(chunk, _LANES, _LANES)])
            for row, chunk in itertools.product(rows, self.chunks)
        ]

    def _groups(self, rows: Sequence[_Row]) -> Iterator[list[_Row]]:
        """Yields the rows of each tile, which follow each other along one dimension."""
        for _, same in itertools.groupby(rows, lambda row: (*row[: self.dim], *row[self.dim + 1 :])):
            group = list(same)
            for start in range(0, len(group), ROWS):
                yield group[start : start + ROWS]

    def _add(
        self,
        reader: Reader,
        rows: Sequence[_Row],
        places: Sequence[_Where],
        weights: Mapping[tuple[int, Chunk], Sequence[ir.Value]],
        totals: dict[tuple[_Row, Chunk], ir.Value],
    ) -> None:
        """Adds the products of the rows of a tile, for as many tiles of sums at once as fit the registers."""
        keys, count = list(weights), max(1, _PRODUCTS // -(-self.product.words // self._words))
        for start in range(0, len(keys), count):
            some = keys[start : start + count]
            inputs = {number: self._inputs(rows, places[number]) for number, _ in some}
            sums = {}
            for number, part in some:
                kind = ir.VectorType.get([len(rows), _LANES], ir.IntegerType.get_signless(32))
                total = splat(0, kind)
                for left, right in zip(inputs[number], weights[number, part], strict=True):
                    lines = right if isinstance(right.type, ir.VectorType) else read_whole(right)
                    total = contract_tiles(left, _numbers(lines), total)
                sums[number, part] = total
            stored = {key: _stored(total) for key, total in sums.items()}
            for place, row in enumerate(rows):
                for number, part in some:
                    where = places[number]
                    total = self.product.finished(_row(stored[number, part], place), reader, row, part, where)
                    scale = self.product.scale(reader, rows[0], part, where)
                    totals[row, part] = vector.fma(total, scale, totals[row, part])

    @property
    def _words(self) -> int:
        """Number of words of a tile."""
        return divisor(self.product.words, ROWS * self.product.bits // 8)

    def _inputs(self, rows: Sequence[_Row], where: _Where) -> list[ir.Value]:
        """Returns the tiles [rows, grains, grain] of a block of the input."""
        word, part, byte = self.product.dims
        parts, made = 8 // self.product.bits, []
        for start in range(0, self.product.words, self._words):
            sizes = {self.dim: len(rows), word: self._words, part: parts, byte: GRAIN}
            tile = read_part(self.loops, INPUT, {**dict(enumerate(rows[0])), **where, word: start}, sizes, self.dim)
            kind = ir.VectorType.get([len(rows), self._words * parts, GRAIN], ir.VectorType(tile.type).element_type)
            made.append(widened(vector.shape_cast(kind, tile), is_signed=True))
        return made

    def _weight(self, reader: Reader, row: _Row, part: Chunk, where: _Where) -> list[ir.Value]:
        """Returns the tiles [grains, 4 * columns] of the numbers of a block: in memory, or read from the weight."""
        word, _, byte = self.product.dims
        if self.product.bits == 8:
            lane, sizes = self.loops.parallel - 1, {word: self._words, self.loops.parallel - 1: LINE_BYTES}
            first = {**dict(enumerate(row)), **where, lane: part.start, byte: 0}
            starts = range(0, self.product.words, self._words)
            return [read_part(self.loops, WEIGHT, {**first, word: start}, sizes, None) for start in starts]
        element = ir.IntegerType.get_signless(8)
        parts, made = 8 // self.product.bits, []
        for start in range(0, self.product.words, self._words):
            tile = tensor.empty([self._words * parts, LINE_BYTES], element)
            for number, place in itertools.product(range(self._words), range(parts)):
                at = {**where, word: start + number, byte: 0}
                words = reader.grains(WEIGHT, row, part, at, GRAIN)
                line = vector.bitcast(ir.VectorType.get([LINE_BYTES], element), self.product.numbers(words, place))
                tile = _written(line, tile, [number * parts + place, 0])
            made.append(tile)
        return made


def _numbers(lines: ir.Value) -> ir.Value:
    """Returns a tile of numbers, [grains, columns, grain], from its lines."""
    shape = [ir.VectorType(lines.type).shape[0], _LANES, GRAIN]
    kind = ir.VectorType.get(shape, ir.VectorType(lines.type).element_type)
    return widened(vector.shape_cast(kind, lines), is_signed=False)


def _stored(total: ir.Value) -> ir.Value:
    """Returns a tile of sums in memory."""
    kind = ir.VectorType(total.type)
    return _written(total, tensor.empty(kind.shape, kind.element_type), [0, 0])


def _written(value: ir.Value, target: ir.Value, place: Sequence[int]) -> ir.Value:
    rank, count = len(place), ir.VectorType(value.type).rank
    dims = [ir.AffineExpr.get_dim(dim) for dim in range(rank - count, rank)]
    where = ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, dims))
    indices = [constant_index(number) for number in place]
    return vector.TransferWriteOp(target.type, value, target, indices, where, [True] * count).results[0]


def _row(tile: ir.Value, row: int) -> ir.Value:
    """Reads a row of a tile of sums."""
    kind = ir.RankedTensorType(tile.type)
    last = ir.AffineMapAttr.get(ir.AffineMap.get(2, 0, [ir.AffineExpr.get_dim(1)]))
    indices, padding = [constant_index(row), constant_index(0)], arith.constant(kind.element_type, 0)
    return vector.TransferReadOp(
        ir.VectorType.get([_LANES], kind.element_type), tile, indices, last, padding, [True]
    ).result
