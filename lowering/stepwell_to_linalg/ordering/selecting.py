"""Selecting elements: a vector of conditions becomes the bits of a word, and each byte of it the indices of its bits.

scf.for %block { %word = vector.bitcast %conditions : vector<64xi1> to vector<1xi64>
  scf.if %word != 0 { for each byte of %word {
    %places = vector.transfer_read %table[%byte, 0]; vector.transfer_write %start + %places, %found[%count]
    %count += math.ctpop(%byte) } } }

A whole vector of indices is written for each byte; the next byte overwrites the unused ones. The vector stays inside
the result, because at most as many elements are found before a byte as precede it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, math, tensor, vector

from ....dialects.stepwell.selecting import CompressOp, NonZeroOp
from ....machines.families import WIDEST_VECTOR_BYTES
from ....passes.ir.values import element_type_of, shape_of
from ...builders.access import Point, broadcast, read_row, vector_type, write_row
from ...builders.indices import Index, value_of
from ...builders.scalars import number
from ...builders.tensors import constant_tensor, copy, empty, with_shape
from ..positions.scattering import around
from ..rules import LINALG
from ..sequences import Elements, in_parallel, part, put, repeat, when

_BLOCK = 64
"""Number of conditions that are tested at once."""
_BITS = 8
"""Number of conditions whose indices are written at once: the table has a row for each value of a byte."""
_LANES = WIDEST_VECTOR_BYTES // 4
"""Number of indices that are converted to coordinates at once."""


@LINALG.attach(NonZeroOp)
def nonzero(op: NonZeroOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the search in the flat input, and the conversion of its indices to coordinates."""
    shape, (rank, extent) = shape_of(inputs[0]), shape_of(outs[0])
    if rank * extent == 0:
        return [outs[0]]
    flat = with_shape(inputs[0], [extent])
    if rank == 1:
        _, found = true_elements(flat, with_shape(outs[0], [extent]))
        return [with_shape(found, [1, extent])]
    count, found = true_elements(flat, empty([extent], ir.IntegerType.get_signless(32 if extent < 1 << 31 else 64)))
    return [_coordinates(found, count, shape, outs[0])]


_Test = Callable[[ir.Value], ir.Value]
"""Returns the conditions of a vector of elements, or of one element, as bits."""


def is_set(values: ir.Value) -> ir.Value:
    """Returns whether bytes are not zero."""
    return arith.cmpi(arith.CmpIPredicate.ne, values, like(0, values))


def like(value: float, other: ir.Value) -> ir.Value:
    """Returns a number in each lane of a value like another one."""
    kind = other.type
    if not isinstance(kind, ir.VectorType):
        return number(value, kind)
    return broadcast(number(value, kind.element_type), kind.shape[0])


def true_elements(elements: ir.Value, found: ir.Value, test: _Test = is_set) -> tuple[ir.Value, ir.Value]:
    """Emits a search for the elements whose condition is true.

    Args:
        elements: elements [element].
        found: a tensor of integers [element] for their indices.
        test: computes the conditions of some elements.

    Returns:
        Their number, and their indices in order; further elements are undefined.
    """
    (extent,), kind = shape_of(elements), element_type_of(found)
    table = _table()

    def block(turn: ir.Value, carried: Elements) -> Elements:
        start = arith.muli(turn, value_of(_BLOCK))
        is_true = test(read_row(elements, [start], Point((), None, _BLOCK, _BLOCK)))
        word = ir.IntegerType.get_signless(_BLOCK)
        bits = vector.extract(vector.bitcast(vector_type(1, word), is_true), [], [0])
        is_any = arith.cmpi(arith.CmpIPredicate.ne, bits, number(0, word))
        return when(is_any, carried, lambda: _indices_of(bits, start, carried, table))

    def one(at: ir.Value, carried: Elements) -> Elements:
        count, indices = carried
        is_true = test(tensor.extract(elements, [at]))
        # Overwritten by the next one unless it counts.
        indices = tensor.insert(arith.index_cast(kind, at), indices, [count])
        return [arith.addi(count, arith.index_castui(ir.IndexType.get(), is_true)), indices]

    whole = extent // _BLOCK
    carried = repeat(0, whole, [value_of(0), found], block)
    count, indices = repeat(whole * _BLOCK, extent, carried, one)
    return count, indices


def _table() -> ir.Value:
    """Returns the positions of the set bits of each byte, as rows of a flat tensor of bytes."""
    rows = ([bit for bit in range(_BITS) if byte >> bit & 1] for byte in range(1 << _BITS))
    filled = (row + [0] * (_BITS - len(row)) for row in rows)
    return constant_tensor([position for row in filled for position in row], ir.IntegerType.get_signless(8))


def _indices_of(bits: ir.Value, start: ir.Value, carried: Elements, table: ir.Value) -> Elements:
    """Appends the indices of the set bits of a word, byte by byte."""
    count, found = carried
    row, kind = Point((), None, _BITS, _BITS), element_type_of(found)
    for low in range(0, _BLOCK, _BITS):
        byte = arith.andi(arith.shrui(bits, number(low, bits.type)), number((1 << _BITS) - 1, bits.type))
        at = arith.index_castui(ir.IndexType.get(), arith.muli(byte, number(_BITS, bits.type)))
        indices = arith.extui(vector_type(_BITS, kind), read_row(table, [at], row))
        first = arith.index_cast(kind, arith.addi(start, value_of(low)))
        found = write_row(arith.addi(indices, broadcast(first, _BITS)), found, [count], row)
        count = arith.addi(count, arith.index_castui(ir.IndexType.get(), math.ctpop(byte)))
    return [count, found]


def _coordinates(indices: ir.Value, count: ir.Value, shape: Sequence[int], out: ir.Value) -> ir.Value:
    """Writes a row of coordinates for each dimension; `indices` are indices in a tensor of `shape` in row-major order.

    The last vector overlaps the one before.
    """
    (extent,), kind = shape_of(indices), element_type_of(indices)
    lanes = min(_LANES, extent)
    row, wide = Point((), None, lanes, lanes), vector_type(lanes, ir.IntegerType.get_signless(64))

    def convert(turn: ir.Value, carried: Elements) -> Elements:
        (into,) = carried
        start = arith.minsi(arith.muli(turn, value_of(lanes)), value_of(extent - lanes))
        left = read_row(indices, [start], row)
        for axis in reversed(range(len(shape))):
            size = broadcast(number(shape[axis], kind), lanes)
            rest = left if axis == 0 else arith.divui(left, size)
            mine = left if axis == 0 else arith.subi(left, arith.muli(rest, size))
            into = write_row(mine if mine.type == wide else arith.extui(wide, mine), into, [axis, start], row)
            left = rest
        return [into]

    return repeat(0, arith.ceildivui(count, value_of(lanes)), [out], convert)[0]


@LINALG.attach(CompressOp)
def compress(op: CompressOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a copy of the slices of each batch."""
    input, condition = inputs
    shape = shape_of(input)
    (length,) = shape_of(condition)
    if 0 in (*shape, length):
        return [outs[0]]
    batches, extent, size = around(op.axis, shape)
    count, indices = true_elements(condition, empty([length], ir.IntegerType.get_signless(64)))
    slices = [] if size == 1 else [size]
    source, out = with_shape(input, [batches, extent, *slices]), with_shape(outs[0], [batches, extent, *slices])

    def one_slice(at: Sequence[ir.Value], to: ir.Value, block: ir.Value) -> ir.Value:
        index = arith.index_cast(ir.IndexType.get(), tensor.extract(indices, [to]))
        if not slices:
            return tensor.insert(tensor.extract(source, [at[0], index]), block, [value_of(0), to])
        offsets: list[Index] = [0, to, 0]
        row = part(block, offsets, [1, 1, size], rank=1)
        moved = copy(part(source, [at[0], index, 0], [1, 1, size], rank=1), row)
        return put(moved, block, offsets, [1, 1, size])

    def one_batch(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        return repeat(0, count, [block], lambda to, carried: [one_slice(at, to, carried[0])])[0]

    return [with_shape(in_parallel([1, extent, *slices], out, one_batch), shape)]
