"""Reads of a register tile: rows are cut into vectors, affine indices are folded, and every element is read once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, tensor, vector

from ...passes.infra.base import PassError
from ..builders.generics import zero_of
from ..builders.linear_forms import LinearForm, LinearIndex, apply_linear, linear_form


@dataclass(frozen=True)
class Chunk:
    """A part of a row that is one vector.

    Attributes:
        start: first column.
        lanes: vector length, a power of two.
        used: number of lanes that hold columns.
        moved: number of lanes read from and written to memory, a power of two; lanes that are not used are masked.
    """

    start: int
    lanes: int
    used: int
    moved: int

    def type(self, element: ir.Type) -> ir.VectorType:
        """Returns the vector type for elements of a type."""
        return ir.VectorType.get([self.lanes], element)

    def mask(self) -> ir.Value | None:
        """Returns the mask for memory accesses; None if no lane is masked."""
        if self.used == self.moved:
            return None
        return vector.constant_mask(ir.VectorType.get([self.moved], ir.IntegerType.get_signless(1)), [self.used])

    def widened(self, value: ir.Value) -> ir.Value:
        """Extends a vector read from memory to all lanes."""
        return resized(value, self.lanes)

    def narrowed(self, value: ir.Value) -> ir.Value:
        """Returns the lanes of a vector that are written to memory."""
        return resized(value, self.moved)


def resized(value: ir.Value, lanes: int) -> ir.Value:
    """Returns the first lanes of a vector; those that it does not have are undefined."""
    (count,) = ir.VectorType(value.type).shape
    if count == lanes:
        return value
    return vector.shuffle(value, value, [*range(min(count, lanes)), *[_UNDEFINED] * (lanes - count)])


# Shuffle index of lanes whose contents are undefined.
_UNDEFINED = -1


def chunks_of(width: int, lanes: int) -> list[Chunk]:
    """Cuts `width` columns into vectors: as long as possible, in whole registers of `lanes`.

    The rest of a row gets registers as wide as the others: otherwise LLVM would keep common values twice.
    """
    chunks, start = [], 0
    while start < width:
        rest = width - start
        above = 1 << (rest - 1).bit_length()
        size = above if rest < lanes or above == rest else above // 2
        chunks.append(Chunk(start, max(size, lanes) if start else size, min(size, rest), size))
        start += size
    return chunks


def registers_of(chunk: Chunk, lanes: int, fewest: int) -> list[Chunk]:
    """Cuts a chunk into vectors of one register each, which have at least `fewest` lanes."""
    if chunk.lanes <= lanes:
        return [replace(chunk, lanes=max(chunk.lanes, fewest))]
    return [Chunk(chunk.start + start, lanes, lanes, lanes) for start in range(0, chunk.lanes, lanes)]


class Indexing:
    """The iteration space of a linalg.generic and the indexing of its operands.

    Attributes:
        sizes: extent of every dimension.
        parallel: number of parallel dimensions, which are the leading ones.
        operands: the op's operands.
        exprs: for each operand, one affine expression per dimension.
    """

    def __init__(self, op: ir.Operation | ir.OpView) -> None:
        """Reads the iteration space from the op.

        Raises:
            PassError: the result is not indexed by the leading dimensions in order.
        """
        maps = [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(op.attributes["indexing_maps"])]
        kinds = [str(item) for item in ir.ArrayAttr(op.attributes["iterator_types"])]
        self.parallel = sum("parallel" in kind for kind in kinds)
        self.operands = list(op.operands)
        self.exprs = [[expr.maybe_downcast() for expr in item.results] for item in maps]
        found: dict[int, int] = {}
        for value, exprs in zip(self.operands, self.exprs, strict=True):
            for size, expr in zip(ir.RankedTensorType(value.type).shape, exprs, strict=True):
                if isinstance(expr, ir.AffineDimExpr):
                    found[expr.position] = size
        self.sizes = [found[dim] for dim in range(len(kinds))]
        if not self._is_leading(self.exprs[-1]):
            raise PassError("a register tile's result must be indexed by the parallel dimensions in order", op.location)

    def starts(self, operand: int, where: Mapping[int, int]) -> tuple[int, ...]:
        """Returns where an operand is accessed, relative to the dimensions that `where` does not hold."""
        everywhere: dict[int, LinearIndex] = {**dict.fromkeys(range(len(self.sizes)), 0), **where}
        return tuple(linear_form(expr, everywhere)[0] for expr in self.exprs[operand])

    def _is_leading(self, exprs: Sequence[ir.AffineExpr]) -> bool:
        positions = [expr.position if isinstance(expr, ir.AffineDimExpr) else -1 for expr in exprs]
        return positions == list(range(self.parallel))


Steps = tuple[int, ...]


class Reader:
    """Reads the operands of one op; equal reads in one scope are emitted once."""

    def __init__(
        self, loops: Indexing, registers: Mapping[int, Mapping[tuple[int, ...], list[ir.Value]]], ahead: int = 1
    ) -> None:
        """Makes a reader of one op.

        Args:
            loops: how the op indexes its operands.
            registers: operands (by position) that are register tiles already.
            ahead: number of successively used elements, each for a whole row, that may be read as one vector.
        """
        self.loops, self._registers, self._ahead = loops, registers, ahead
        self._indices: dict[LinearForm, ir.Value] = {}
        self._vectors: dict[tuple, ir.Value] = {}
        self._neighbours: dict[tuple, ir.Value] = {}
        self._steps: dict[tuple[int, Chunk], list[Steps]] = {}

    def inner(self) -> Reader:
        """Returns a reader for the body of a loop."""
        reader = Reader(self.loops, self._registers, self._ahead)
        reader._steps = self._steps
        return reader

    def read(self, operand: int, row: tuple[int, ...], chunk: Chunk, where: Mapping[int, LinearIndex]) -> ir.Value:
        """Reads the vector of an operand at a row and chunk of the tile, with the reduction dimensions at `where`."""
        if operand in self._registers:
            return self._register(operand, row, chunk)
        lane = self.loops.parallel - 1
        places: dict[int, LinearIndex] = {**dict(enumerate(row)), lane: chunk.start, **where}
        exprs = self.loops.exprs[operand]
        linear = tuple(linear_form(expr, places) for expr in exprs)
        if (operand, chunk) not in self._steps:
            self._steps[operand, chunk] = [_steps(expr, lane, chunk) for expr in exprs]
        steps = self._steps[operand, chunk]
        key = (operand, linear, chunk if any(map(any, steps)) else chunk.lanes)
        if key not in self._vectors:
            self._vectors[key] = self._load(operand, linear, steps, chunk)
        return self._vectors[key]

    def grain(self, operand: int, row: tuple[int, ...], where: Mapping[int, LinearIndex], count: int) -> ir.Value:
        """Reads the `count` elements of an operand's last dimension at a row of the tile, as one integer."""
        places: dict[int, LinearIndex] = {**dict(enumerate(row)), **where}
        linear = [linear_form(expr, places) for expr in self.loops.exprs[operand][:-1]]
        key = (operand, *linear, count)
        if key not in self._vectors:
            vector_of = self._row(operand, [*linear, (0, ())], Chunk(0, count, count, count))
            word = vector.bitcast(ir.VectorType.get([1], self._word(operand, count)), vector_of)
            self._vectors[key] = vector.extract(word, [], [0])
        return self._vectors[key]

    def grains(
        self, operand: int, row: tuple[int, ...], chunk: Chunk, where: Mapping[int, LinearIndex], count: int
    ) -> ir.Value:
        """Reads a vector of integers, each the `count` elements of an operand that belong to one lane of a chunk."""
        places: dict[int, LinearIndex] = {**dict(enumerate(row)), self.loops.parallel - 1: chunk.start, **where}
        linear = [linear_form(expr, {**places, len(self.loops.sizes) - 1: 0}) for expr in self.loops.exprs[operand]]
        vector_of = self._row(operand, linear, Chunk(0, count * chunk.lanes, count * chunk.used, count * chunk.moved))
        return vector.bitcast(ir.VectorType.get([chunk.lanes], self._word(operand, count)), vector_of)

    def _word(self, operand: int, count: int) -> ir.Type:
        """Returns the integer type that holds `count` elements of an operand."""
        element = ir.RankedTensorType(self.loops.operands[operand].type).element_type
        assert isinstance(element, ir.IntegerType | ir.FloatType)
        return ir.IntegerType.get_signless(element.width * count)

    def _register(self, operand: int, row: tuple[int, ...], chunk: Chunk) -> ir.Value:
        vectors = self._registers[operand][row]
        start = 0
        for value in vectors:
            if start == chunk.start:
                return value
            start += ir.VectorType(value.type).shape[0]
        raise PassError(f"no vector starts at column {chunk.start} of {self.loops.operands[operand].type}")

    def _load(self, operand: int, linear: Sequence[LinearForm], steps: Sequence[Steps], chunk: Chunk) -> ir.Value:
        source = self.loops.operands[operand]
        element = ir.RankedTensorType(source.type).element_type
        if not any(map(any, steps)):
            return vector.broadcast(chunk.type(element), self._scalar(operand, linear))
        if any(map(any, steps[:-1])):
            return self._gather(source, linear, steps, chunk)
        if steps[-1] == tuple(range(chunk.used)):
            return self._row(operand, linear, chunk)
        return self._spread(operand, linear, steps, chunk)

    def _scalar(self, operand: int, linear: Sequence[LinearForm]) -> ir.Value:
        """Reads one element; if a loop advances by several elements, it may be extracted from a vector."""
        base, terms = linear[-1] if linear else (0, ())
        count = math.gcd(*(factor for _, factor in terms))
        if not 1 < count <= self._ahead or not 0 <= base < count:
            return tensor.extract(self.loops.operands[operand], [self._index(item) for item in linear])
        vector_of = self._row(operand, [*linear[:-1], (0, terms)], Chunk(0, count, count, count))
        return vector.extract(vector_of, [], [base])

    def _row(self, operand: int, linear: Sequence[LinearForm], chunk: Chunk) -> ir.Value:
        """Reads a vector of neighbouring elements."""
        key = (operand, tuple(linear), chunk)
        if key not in self._neighbours:
            source, rank = self.loops.operands[operand], len(linear)
            element = ir.RankedTensorType(source.type).element_type
            lane_map = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)])
            padding = arith.constant(element, zero_of(element))
            indices = [self._index(item) for item in linear]
            kind = ir.VectorType.get([chunk.moved], element)
            row = vector.TransferReadOp(
                kind, source, indices, ir.AffineMapAttr.get(lane_map), padding, [True], mask=chunk.mask()
            ).result
            self._neighbours[key] = chunk.widened(row)
        return self._neighbours[key]

    def _spread(self, operand: int, linear: Sequence[LinearForm], steps: Sequence[Steps], chunk: Chunk) -> ir.Value:
        """Reads a vector whose lanes share elements of one short row: the row is read once and its elements are spread.

        The row begins at a group of lanes, so that all offsets within the groups read the same row.
        """
        (base, terms), offsets = linear[-1], steps[-1]
        start = base if terms else base // math.gcd(*offsets) * math.gcd(*offsets)
        places = [base - start + offset for offset in offsets]
        source = self.loops.operands[operand]
        if places[-1] >= chunk.lanes:
            return self._gather(source, linear, steps, chunk)
        inside = 1 + places[-1] if terms else ir.RankedTensorType(source.type).shape[-1] - start
        row = self._row(
            operand, [*linear[:-1], (start, terms)], Chunk(0, chunk.lanes, min(chunk.lanes, inside), chunk.lanes)
        )
        return vector.shuffle(row, row, [places[min(lane, chunk.used - 1)] for lane in range(chunk.lanes)])

    def _gather(self, source: ir.Value, linear: Sequence[LinearForm], steps: Sequence[Steps], chunk: Chunk) -> ir.Value:
        """Reads a vector whose elements are not contiguous; lanes that are not used repeat the last element."""
        scalars = []
        for lane in range(chunk.lanes):
            number = min(lane, chunk.used - 1)
            moved = [(base + step[number], terms) for (base, terms), step in zip(linear, steps, strict=True)]
            scalars.append(tensor.extract(source, [self._index(item) for item in moved]))
        return vector.from_elements(chunk.type(scalars[0].type), scalars)

    def _index(self, linear: LinearForm) -> ir.Value:
        if linear not in self._indices:
            self._indices[linear] = apply_linear(linear)
        return self._indices[linear]


def _steps(expr: ir.AffineExpr, lane: int, chunk: Chunk) -> Steps:
    """Returns the offset of an expression from the first lane of a chunk to each lane that is used."""
    zeros: dict[int, LinearIndex] = dict.fromkeys(range(64), 0)
    places = [linear_form(expr, zeros | {lane: chunk.start + step})[0] for step in range(chunk.used)]
    return tuple(place - places[0] for place in places)
