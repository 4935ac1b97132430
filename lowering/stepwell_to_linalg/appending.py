"""Concatenation of data of varying size: each part is copied row by row to the end of the part before it.

scf.forall (%outer) shared_outs(%block = %out) {
  scf.for %i = 0 to %first * %inner iter_args(%block) { vector.transfer_write %lhs[%start + %i], %block[%i] }
  scf.for %i = 0 to %second * %inner iter_args(%block) { vector.transfer_write %rhs[..], %block[%first * %inner + %i] }
  scf.for %i = .. { vector.transfer_write %zero, %block[%i] }
}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, tensor

from ...dialects import discardable
from ...dialects.stepwell.movement import AppendOp
from ...machines.families import WIDEST_VECTOR_BYTES
from ...passes.ir.values import element_type_of, shape_of
from ...passes.kernel.demand import kernel_of
from ..builders.access import Point, broadcast, read_row, write_row, zero
from ..builders.indices import Index, add, at_most, loop, multiply, subtract, value_of
from ..builders.tensors import dims, loop_index, structured, with_shape
from .rules import LINALG, LINALG_BY_ELEMENT
from .sequences import in_parallel, where

_VECTOR_BYTES = WIDEST_VECTOR_BYTES
_VECTORS = 4
"""Number of vectors per iteration, all of which are loaded before the first store."""


@LINALG.attach(AppendOp)
def append(op: AppendOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits copies of [outer, rows * inner] that stop at the sizes of a call, and zeros up to where they are read."""
    lhs, rhs, table = inputs
    shape = shape_of(outs[0])
    axis = op.axis % len(shape)
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if 0 in shape:
        return [outs[0]]
    numbers = TableReader(table)
    counts = [numbers.clamped(end, shape_of(value)[axis]) for end, value in zip(op.ends, (lhs, rhs), strict=True)]
    copied = numbers.clamped(op.layout[-1], shape_of(lhs)[axis]) if op.layout else counts[0]
    kernel = kernel_of(op.operation)
    entries = discardable.EXTENTS.read(kernel, [-1] * len(shape))
    # The loops of an append already end at the sizes of a call.
    discardable.EXTENTS.remove(kernel)
    needed = numbers.clamped(entries[axis], shape[axis])
    runs = [multiply(count, inner) for count in (copied, counts[0], counts[1], needed)]
    sources = [with_shape(value, [math.prod(shape_of(value))]) for value in (lhs, rhs)]
    # Readers may need rows of the result that the caller's memory does not have: these are zeros.
    outside = entries[:axis]
    held = [-1 if live == end else end for live, end in zip(outside, op.held or outside, strict=True)]
    width = shape[axis] * inner
    filled = zero(element_type_of(lhs))

    def inside(indices: Sequence[Index], ends: Sequence[int]) -> ir.Value | None:
        found = None
        for position, entry in zip(indices, ends, strict=True):
            if entry >= 0:
                here = arith.cmpi(arith.CmpIPredicate.slt, value_of(position), numbers.at(entry))
                found = here if found is None else arith.andi(found, here)
        return found

    def block_of(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        indices = _indices(at[0], shape[:axis])
        row = with_shape(block, [width])

        def body() -> ir.Value:
            starts = [_start(numbers, op.layout, indices, lhs, axis), _start(numbers, (), indices, rhs, axis)]
            first, end = runs[1], add(runs[1], runs[2])
            made, length = row, runs[0]
            if (is_held := inside(indices, held)) is not None:
                length = arith.select(is_held, value_of(runs[0]), value_of(0))
                missing = arith.select(is_held, value_of(0), value_of(runs[1]))
                made = copy_run(made, 0, missing, lambda position, point: _filled(filled, point))
            made = copy_run(
                made, 0, length, lambda position, point: read_at(sources[0], add(starts[0], position), point)
            )
            made = copy_run(
                made,
                first,
                end,
                lambda position, point: read_at(sources[1], add(starts[1], subtract(position, first)), point),
            )
            return copy_run(made, end, runs[3], lambda position, point: _filled(filled, point))

        is_live = inside(indices, outside)
        made = body() if is_live is None else where(is_live, row, body)
        return with_shape(made, [1, width])

    return [with_shape(in_parallel([1, width], with_shape(outs[0], [outer, width]), block_of), shape)]


@LINALG_BY_ELEMENT.attach(AppendOp)
def append_by_element(op: AppendOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the choice of the operand for every element."""
    lhs, rhs, table = inputs
    shape = shape_of(outs[0])
    axis = op.axis % len(shape)
    numbers = TableReader(table)
    counts = [
        value_of(numbers.clamped(end, shape_of(item)[axis])) for end, item in zip(op.ends, (lhs, rhs), strict=True)
    ]

    def body(_: ir.Value) -> ir.Value:
        indices = [loop_index(dim) for dim in range(len(shape))]
        ahead = arith.subi(indices[axis], counts[0])
        found = []
        for value, index in ((lhs, indices[axis]), (rhs, ahead)):
            last = value_of(shape_of(value)[axis] - 1)
            inside = arith.maxsi(arith.minsi(index, last), value_of(0))
            found.append(tensor.extract(value, [*indices[:axis], inside, *indices[axis + 1 :]]))
        is_first = arith.cmpi(arith.CmpIPredicate.slt, ahead, value_of(0))
        is_second = arith.cmpi(arith.CmpIPredicate.slt, ahead, counts[1])
        return arith.select(is_first, found[0], arith.select(is_second, found[1], zero(element_type_of(lhs))))

    return structured([], [outs[0]], [dims(len(shape))], "p" * len(shape), body)


class TableReader:
    """Reads the table of extents."""

    def __init__(self, table: ir.Value) -> None:
        self._table = table

    def at(self, entry: int) -> ir.Value:
        """Returns an entry as an index."""
        return arith.index_cast(ir.IndexType.get(), tensor.extract(self._table, [value_of(entry)]))

    def clamped(self, entry: int, most: int) -> Index:
        """Returns an entry clamped to `most`, as an index; `most` itself for entry -1."""
        return most if entry < 0 else arith.maxsi(value_of(at_most(self.at(entry), most)), value_of(0))


def _indices(index: ir.Value, sizes: Sequence[int]) -> list[Index]:
    """Returns the index along each of several dimensions, from that along all of them."""
    found: list[Index] = []
    rest: Index = index
    for size in reversed(sizes):
        last = math.prod(sizes) == size
        found.insert(0, 0 if size == 1 else rest if last else arith.remui(value_of(rest), value_of(size)))
        rest = rest if size == 1 else arith.divui(value_of(rest), value_of(size))
    return found


def _start(numbers: TableReader, layout: Sequence[int], indices: Sequence[Index], value: ir.Value, axis: int) -> Index:
    """Returns the number of elements before those at some indices of the dimensions before `axis`."""
    shape = shape_of(value)
    start: Index = 0
    for dim, position in enumerate(indices):
        if position != 0:
            stride: Index = numbers.at(layout[dim]) if layout else math.prod(shape[dim + 1 :])
            start = add(start, multiply(position, stride))
    return start


def read_at(source: ir.Value, position: Index, point: Point) -> ir.Value:
    """Returns the vector, or the element, of a 1-D tensor at a position."""
    if point.lane_dim is None:
        return tensor.extract(source, [value_of(position)])
    return read_row(source, [position], point)


def copy_run(row: ir.Value, start: Index, stop: Index, value: Callable[[Index, Point], ir.Value]) -> ir.Value:
    """Returns `row` with the elements from `start` to `stop` replaced.

    There are three loops: over several vectors at a time, over single vectors, and over elements.
    """
    lanes = max(1, _VECTOR_BYTES // max(1, bits_of(row) // 8))
    whole, single = Point((), 0, lanes, lanes), Point(())
    for step, point in ((_VECTORS * lanes, whole), (lanes, whole), (1, single)):
        count = _not_negative(subtract(stop, start))
        end = add(start, count if step == 1 else multiply(_divided(count, step), step))

        def body(position: Index, made: list[ir.Value], step: int = step, point: Point = point) -> list[ir.Value]:
            items = [add(position, offset) for offset in range(0, step, point.width)]
            for item, read in zip(items, [value(item, point) for item in items], strict=True):
                made = [_written(read, made[0], item, point)]
            return made

        (row,) = loop(start, end, step, [row], body)
        start = end
    return row


def _filled(value: ir.Value, point: Point) -> ir.Value:
    return value if point.lane_dim is None else broadcast(value, point.width)


def _written(value: ir.Value, into: ir.Value, position: Index, point: Point) -> ir.Value:
    if point.lane_dim is None:
        return tensor.insert(value, into, [value_of(position)])
    return write_row(value, into, [position], point)


def bits_of(value: ir.Value) -> int:
    """Returns the number of bits of an element; 64 for an index."""
    element = element_type_of(value)
    return element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64


def _not_negative(index: Index) -> Index:
    return max(index, 0) if isinstance(index, int) else arith.maxsi(index, value_of(0))


def _divided(index: Index, by: int) -> Index:
    return index // by if isinstance(index, int) else arith.divui(index, value_of(by))
