"""Copies of an operand's tiles from global to shared memory, distributed over the threads of a block.

A tile is `rows` x `depth` elements, stored as lines: along depth (one line per row) or along rows (one line per depth).
Lines are split into units of one access each. Thread t copies units t, t + threads, and so on, so that neighbouring
threads read neighbouring addresses. The row's part of a unit's address is computed before the loop over depth.

Elements outside the operand (past the last row or depth, or in the padding) become zero in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

from ...instructions.inline_ptx import copy_async
from ...instructions.integers import Int, both
from ...instructions.loops import when
from ...instructions.memory import element_pointer, load, store
from .access import ElementOffset, OperandAccess, count
from .shared import CHUNK, SharedTile


@dataclass(frozen=True)
class OperandTile:
    """A tile of an operand in shared memory.

    Attributes:
        rows: number of rows.
        depth: depth of the tile.
        element_bytes: size of an element in shared memory.
        by_depth: whether a line is a row, with contiguous depths, rather than a depth.
        layout: layout of the lines.
    """

    rows: int
    depth: int
    element_bytes: int
    by_depth: bool
    layout: SharedTile

    @property
    def line(self) -> int:
        """Elements per line."""
        return self.depth if self.by_depth else self.rows

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self.rows if self.by_depth else self.depth


@dataclass(frozen=True)
class OperandSlice:
    """Part of an operand that a block reads, from `row` on in one batch element; and the calling thread."""

    row: Int
    batch: Int
    thread: Int
    threads: int


class _CopyUnits:
    """The units of a tile that one thread copies.

    Args:
        access: access function of the operand.
        tile: the destination.
        part: the block's part of the operand.
        width: elements per unit.
        by_depth: whether a unit's elements differ in depth.
    """

    def __init__(
        self, access: OperandAccess, tile: OperandTile, part: OperandSlice, width: int, by_depth: bool
    ) -> None:
        self.access, self.tile, self.width = access, tile, width
        self._rows, self._depth = count(access.rows), count(access.depth)
        self._base = access.origin() + access.place(access.batch, part.batch)
        line = tile.depth if by_depth else tile.rows
        per_line, total = line // width, tile.rows * tile.depth // width
        self.is_mine = None if total % part.threads == 0 else part.thread.below(total)
        # Row and depth in the tile of every unit's first element, and the row's part of its address.
        self.places: list[tuple[Int, Int]] = []
        self._row_places: list[tuple[ElementOffset, ir.Value | None]] = []
        known: dict[int, tuple[ElementOffset, ir.Value | None]] = {}
        for across, along in _shares(part, total, per_line):
            row, depth = (across, along * width) if by_depth else (along * width, across)
            self.places.append((row, depth))
            key = id(row.value) if row.known is None else row.known
            if key not in known:
                known[key] = self._row_place(part.row + row)
            self._row_places.append(known[key])

    def sources(self, start: Int) -> list[tuple[Int, ir.Value | None]]:
        """Returns, for every unit of the tile at depth `start`, its offset in elements and whether it is in bounds."""
        known: dict[object, tuple[ElementOffset, ir.Value | None]] = {}
        found = []
        for (_, depth), (row_place, in_rows) in zip(self.places, self._row_places, strict=True):
            key = id(depth.value) if depth.known is None else depth.known
            if key not in known:
                known[key] = self._depth_place(start + depth)
            depth_place, in_depth = known[key]
            place = row_place + depth_place
            found.append((place.offset, both(in_rows, in_depth, *self.access.inside(place))))
        return found

    def _row_place(self, row: Int) -> tuple[ElementOffset, ir.Value | None]:
        is_whole = self._rows % self.tile.rows == 0
        inside = None if is_whole else row.below(self._rows)
        return self._base + self.access.place(self.access.rows, row.where(inside, 0)), inside

    def _depth_place(self, depth: Int) -> tuple[ElementOffset, ir.Value | None]:
        is_whole = self._depth % self.tile.depth == 0
        inside = None if is_whole else depth.below(self._depth)
        return self.access.place(self.access.depth, depth.where(inside, 0)), inside


class AsyncCopies:
    """Copies by `cp.async`, which bypass registers; for operands that are contiguous in memory."""

    def __init__(
        self, access: OperandAccess, tile: OperandTile, part: OperandSlice, pointer: ir.Value, element: ir.Type
    ) -> None:
        """Computes the addresses of the thread's copies.

        Args:
            access: access function of the operand; one access can always read at least 4 bytes.
            tile: the destination; its lines have the direction of the operand's.
            part: the block's part of the operand.
            pointer: the operand in global memory.
            element: element type.
        """
        self._units = _CopyUnits(access, tile, part, access.vector, access.by_depth)
        self._pointer, self._element = pointer, element
        self._bytes = access.vector * access.element_bytes
        self._targets = [_target(tile, row, depth) for row, depth in self._units.places]

    def start(self, depth: Int, shared: Int, wanted: ir.Value | None) -> None:
        """Starts the copies of the tile at `depth` to the address `shared`, if `wanted` holds."""
        with when(both(wanted, self._units.is_mine)):
            for target, (offset, valid) in zip(self._targets, self._units.sources(depth), strict=True):
                size = None if valid is None else Int(self._bytes).where(valid, 0)
                source = element_pointer(self._pointer, self._element, offset)
                copy_async(shared + target, source, self._bytes, size)

    def finish(self) -> None:
        """Does nothing: `cp.async` writes what it reads."""


ReadOperand = Callable[[Int, int], ir.Value]


class StagedCopies:
    """Copies through registers, for operands that are converted, transposed, unaligned or computed.

    The reads of a tile start before the products of another tile are computed; its writes follow them.
    """

    def __init__(
        self,
        access: OperandAccess,
        tile: OperandTile,
        part: OperandSlice,
        read: ReadOperand,
        element: ir.Type,
        shared: ir.Value,
    ) -> None:
        """Computes the addresses of the thread's copies.

        Args:
            access: access function of the operand.
            tile: the destination.
            part: the block's part of the operand.
            read: function of an offset and a width that reads a vector of elements of type `element`.
            element: element type in shared memory.
            shared: shared memory.
        """
        width = min(access.vector, CHUNK // tile.element_bytes)
        self._units = _CopyUnits(access, tile, part, width, access.by_depth)
        self._tile, self._read, self._element, self._shared = tile, read, element, shared
        self._transposed = access.by_depth != tile.by_depth
        self._pending: list[ir.Value] = []
        self._base = Int(0)

    def start(self, depth: Int, shared: Int, wanted: ir.Value | None) -> None:
        """Reads the tile at `depth`, to be written at the offset `shared`, if `wanted` holds."""
        self._base, self._pending = shared, []
        for offset, valid in self._units.sources(depth):
            valid = both(valid, wanted, self._units.is_mine)
            value = self._read(offset.where(valid, 0), self._units.width)
            if valid is not None:
                zero = arith.constant(value.type, ir.DenseElementsAttr.get_splat(value.type, _zero(self._element)))
                value = arith.select(valid, value, zero)
            self._pending.append(value)

    def finish(self) -> None:
        """Writes the elements that `start` has read."""
        with when(self._units.is_mine):
            for (row, depth), value in zip(self._units.places, self._pending, strict=True):
                self._write_unit(row, depth, value)

    def _write_unit(self, row: Int, depth: Int, value: ir.Value) -> None:
        if not self._transposed:
            self._write(row, depth, value)
            return
        for lane in range(self._units.width):
            ahead = (row, depth + lane) if self._units.access.by_depth else (row + lane, depth)
            self._write(*ahead, vector.extract(value, [], [lane]))

    def _write(self, row: Int, depth: Int, value: ir.Value) -> None:
        target = self._base + _target(self._tile, row, depth)
        width = ir.VectorType(value.type).shape[0] if isinstance(value.type, ir.VectorType) else 1
        bytes = width * self._tile.element_bytes
        store(value, element_pointer(self._shared, ir.IntegerType.get_signless(8), target), bytes)


def read_global(pointer: ir.Value, stored: ir.Type, wanted: ir.Type, alignment: int) -> ReadOperand:
    """Returns a function that reads elements of type `stored` from global memory as type `wanted`."""

    def read(offset: Int, width: int) -> ir.Value:
        address = element_pointer(pointer, stored, offset)
        value = load(_vector(width, stored), address, alignment * width)
        return value if stored == wanted else converted(value, wanted)

    return read


def converted(value: ir.Value, element: ir.Type) -> ir.Value:
    """Converts a vector of floats to another float type."""
    kind = ir.VectorType(value.type)
    target = ir.VectorType.get(kind.shape, element)
    if kind.element_type == element:
        return value
    narrows = ir.FloatType(kind.element_type).width > ir.FloatType(element).width
    return (arith.truncf if narrows else arith.extf)(target, value)


def _target(tile: OperandTile, row: Int, depth: Int) -> Int:
    line, column = (row, depth) if tile.by_depth else (depth, row)
    return tile.layout.element(line, column, tile.element_bytes)


def _shares(part: OperandSlice, total: int, per_line: int) -> Iterator[tuple[Int, Int]]:
    """Returns the line, and the position in the line, of every unit of the thread."""
    numbers = range(-(-total // part.threads))
    if part.threads % per_line == 0:
        across, along = divmod(part.thread, per_line)
        return ((across + number * (part.threads // per_line), along) for number in numbers)
    return (divmod(part.thread + number * part.threads, per_line) for number in numbers)


def _vector(width: int, element: ir.Type) -> ir.VectorType:
    return ir.VectorType.get([width], element)


def _zero(element: ir.Type) -> ir.Attribute:
    return ir.IntegerAttr.get(element, 0) if isinstance(element, ir.IntegerType) else ir.FloatAttr.get(element, 0.0)
