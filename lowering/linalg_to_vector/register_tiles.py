"""Register tiles: fused linalg ops on a small tile, as vector code whose values stay in registers.

A tile's elements are vectors along its innermost dimension, one row of vectors per index of the other dimensions.
Rows are unrolled, and reductions become loops that carry all accumulators. Values passed from one linalg op to the
next stay in SSA values; only results that other ops read are written, once, at the end. The innermost dimension is
cut into vectors with a power of two lanes, the last one masked if needed, so that every vector is one or several
whole hardware registers.

    %z = linalg.fill ins(%zero) outs(%e : tensor<2x32xf32>)
    %s = linalg.generic {(m, l, k): %a[m, k] * %b[k, l]} outs(%z)
    // -->
    %s:2 = scf.for %k ... iter_args(%0 = %zeros, %1 = %zeros) -> (vector<32xf32>, vector<32xf32>) {
      %b_k = vector.transfer_read %b[%k, %c0]
      %2 = vector.fma %a_0k, %b_k, %0
      %3 = vector.fma %a_1k, %b_k, %1
      scf.yield %2, %3
    }
    vector.transfer_write ...
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from mlir import ir
from mlir.dialects import linalg, vector

from ...dialects import discardable
from ...machines.machine import Machine
from ...passes.infra.base import PassError
from ...passes.ir.values import constant_index, shape_of
from ..builders.linear_forms import LinearIndex
from .block_products import BlockProduct
from .block_tiles import BlockTiles
from .byte_products import byte_step
from .matrix_tiles import MATRIX_METHOD, MatrixProduct
from .reduction_nest import ReductionNest
from .scalar_bodies import evaluate_body
from .tap_products import TapProduct
from .tile_reads import Chunk, Indexing, Reader, chunks_of

# A larger number of rows means that the op was never tiled: unrolling it would only make a huge function.
_MAX_ROWS = 512

_Rows = dict[tuple[int, ...], list[ir.Value]]


@dataclass
class _Tile:
    """The result of a linalg op: its vectors by row."""

    rows: _Rows
    chunks: Sequence[Chunk]


@dataclass
class RegisterTiler:
    """Vectorises linalg ops of one block, in order.

    Attributes:
        machine: the machine.
        lanes: number of elements per vector register.
        ahead: number of successively used elements that may be read as one vector.
        bytes_method: method of multiplying bytes, see `byte_step`.
    """

    machine: Machine
    lanes: int
    ahead: int = 1
    bytes_method: str = "bytes"
    _tiles: dict[ir.Value, _Tile] = field(default_factory=dict, init=False)
    _inside: set[ir.Value] = field(default_factory=set, init=False)

    def run(self, candidates: Iterable[ir.OpView]) -> None:
        """Replaces the linalg.fill and linalg.generic ops among `candidates`, which are ops of one block in order.

        Raises:
            PassError: an op is too large for a register tile, or has a form that no schedule makes.
        """
        ops = [op for op in candidates if isinstance(op, linalg.FillOp | linalg.GenericOp)]
        self._inside = {op.results[0] for op in ops}
        for op in ops:
            with op.operation.location, ir.InsertionPoint(op):
                if self._is_matrix_product(op):
                    op.results[0].replace_all_uses_with(MatrixProduct(op).emit())
                    continue
                self._tiles[op.results[0]] = self._fill(op) if isinstance(op, linalg.FillOp) else self._generic(op)
                self._write_back(op)
        for op in reversed(ops):
            op.operation.erase()

    def _is_matrix_product(self, op: ir.OpView) -> TypeGuard[linalg.GenericOp]:
        return self.bytes_method == MATRIX_METHOD and discardable.GRAIN.is_on(op)

    def _fill(self, op: linalg.FillOp) -> _Tile:
        shape, chunks = shape_of(op.results[0]), self._chunks(op.results[0])
        values = [vector.broadcast(chunk.type(op.operands[0].type), op.operands[0]) for chunk in chunks]
        return _Tile(dict.fromkeys(_rows(op, shape[:-1]), values), chunks)

    def _generic(self, op: linalg.GenericOp) -> _Tile:
        loops = Indexing(op)
        chunks = chunks_of(loops.sizes[loops.parallel - 1], self.lanes)
        rows = list(_rows(op, loops.sizes[: loops.parallel - 1]))
        has_grains = discardable.GRAIN.is_on(op)
        blocks = self._block_product(op, loops)
        taps = None if has_grains or blocks else TapProduct.of(op, loops, self.bytes_method, self.lanes)
        inner = 3 if blocks else int(has_grains or taps is not None)
        reductions = list(range(loops.parallel, len(loops.sizes) - inner))
        known = {
            position: self._tiles[value].rows for position, value in enumerate(op.operands) if value in self._tiles
        }
        reader = Reader(loops, known, self.ahead)
        in_tiles = BlockTiles.of(blocks, loops, chunks) if blocks and self.bytes_method == MATRIX_METHOD else None
        if not reductions:
            return _Tile(_step(op, reader, rows, chunks, {}, None), chunks)
        accumulators = [reader.read(len(op.operands) - 1, row, chunk, {}) for row in rows for chunk in chunks]

        def step(reader: Reader, where: Mapping[int, LinearIndex], sums: list[ir.Value]) -> list[ir.Value]:
            if in_tiles is not None:
                return in_tiles.step(reader, rows, where, sums)
            if blocks is not None:
                return blocks.step(reader, rows, chunks, where, sums)
            if taps is not None:
                return taps.step(reader, rows, chunks, where, sums)
            if has_grains:
                return byte_step(reader, rows, chunks, where, sums, self.bytes_method, self.lanes)
            values = _step(op, reader, rows, chunks, where, sums)
            return [value for row in rows for value in values[row]]

        parts = [(row, chunk) for row in rows for chunk in chunks]

        def part(reader: Reader, where: Mapping[int, LinearIndex], number: int, total: ir.Value) -> ir.Value:
            row, chunk = parts[number]
            return _step(op, reader, [row], [chunk], where, [total])[row][0]

        def position(number: int, where: Mapping[int, int]) -> tuple[int, ...]:
            return loops.starts(0, {**where, **dict(enumerate(parts[number][0]))})

        sizes = [loops.sizes[dim] for dim in reductions]
        if in_tiles is not None:
            sizes[-1] //= in_tiles.blocks
        registers = len(rows) * sum(-(-chunk.lanes // self.lanes) for chunk in chunks)
        nest = ReductionNest(op, step, reductions, sizes, registers, self.machine.line_bytes)
        if discardable.UNROLL.is_on(op) and inner == 0:
            nest = replace(nest, part=part, position=position)
        if in_tiles is not None:
            nest = replace(nest, is_unrolled=False)  # numbers of a step must be read before those of the next
        final = nest.run(reader, accumulators)
        width = len(chunks)
        return _Tile({row: final[width * number : width * (number + 1)] for number, row in enumerate(rows)}, chunks)

    def _block_product(self, op: linalg.GenericOp, loops: Indexing) -> BlockProduct | None:
        bits = discardable.BLOCK_BITS.read(op)
        if bits is None:
            return None
        word, part, byte = range(len(loops.sizes) - 3, len(loops.sizes))
        has_factors = isinstance(ir.RankedTensorType(op.operands[0].type).element_type, ir.IntegerType)
        # The others are input, weight, sums, scales and result.
        has_zeros = len(op.operands) - has_factors > 5
        return BlockProduct(
            8 // loops.sizes[part],  # spread numbers take a byte
            1 << (bits - 1),
            (word, part, byte),
            loops.sizes[word],
            has_zeros,
            has_factors,
            self.bytes_method,
            self.lanes,
        )

    def _chunks(self, value: ir.Value) -> list[Chunk]:
        return chunks_of(shape_of(value)[-1], self.lanes)

    def _write_back(self, op: linalg.FillOp | linalg.GenericOp) -> None:
        """Writes the tile to the op's destination if ops outside the tile read it."""
        result = op.results[0]
        readers = [use for use in result.uses if not self._inside.intersection(use.owner.results)]
        if not readers:
            return
        tile, target = self._tiles[result], op.operands[len(op.operands) - 1]
        while target in self._tiles:  # tiles in registers have no memory of their own
            target = target.owner.operands[len(target.owner.operands) - 1]
        rank = len(shape_of(result))
        lane_map = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)])
        for row, values in tile.rows.items():
            for chunk, value in zip(tile.chunks, values, strict=True):
                indices = [constant_index(index) for index in (*row, chunk.start)]
                target = vector.TransferWriteOp(
                    result.type,
                    chunk.narrowed(value),
                    target,
                    indices,
                    ir.AffineMapAttr.get(lane_map),
                    [True],
                    mask=chunk.mask(),
                ).results[0]
        for use in readers:
            use.owner.operation.operands[use.operand_number] = target


def _step(
    op: linalg.GenericOp,
    reader: Reader,
    rows: Sequence[tuple[int, ...]],
    chunks: Sequence[Chunk],
    where: Mapping[int, LinearIndex],
    accumulators: list[ir.Value] | None,
) -> _Rows:
    """Emits one execution of the op's body for every element of the tile."""
    block, results, carried = op.regions[0].blocks[0], {}, iter(accumulators or ())
    for row in rows:
        results[row] = []
        for chunk in chunks:
            scalars = [
                reader.read(position, row, chunk, where) if any(True for _ in argument.uses) else None
                for position, argument in enumerate(list(block.arguments)[:-1])
            ]
            last = block.arguments[len(block.arguments) - 1]
            if accumulators is not None:
                scalars.append(next(carried))
            else:
                is_read = any(True for _ in last.uses)
                scalars.append(reader.read(len(scalars), row, chunk, where) if is_read else None)
            results[row].append(evaluate_body(block, scalars, chunk.lanes))
    return results


def _rows(op: ir.OpView, sizes: Sequence[int]) -> itertools.product:
    if any(size < 0 for size in sizes) or math.prod(sizes) > _MAX_ROWS:
        message = f"'{op.operation.name}' op of {op.results[0].type} is not a register tile; its schedule must tile it"
        raise PassError(message, op.operation.location)
    return itertools.product(*map(range, sizes))
