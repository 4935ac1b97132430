"""Sorting: rows in parallel, each by integer keys in the order of its elements, the least first.

Short rows are sorted by counting the elements before each one, for all elements at once. Long rows are sorted digit
by digit from the lowest, which is stable, except for digits that all elements share. If only some elements are wanted,
most of the others are dropped first. If very few are wanted, those found so far are kept in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ....dialects.stepwell.sorting import TopKOp
from ....dialects.types import is_float, spec_of_type
from ....machines.families import WIDEST_VECTOR_BYTES
from ....passes.ir.values import element_type_of, shape_of
from ...builders.access import Point, broadcast, read_row, vector_type, write_row
from ...builders.indices import value_of
from ...builders.scalars import number, widen
from ...builders.tensors import constant_tensor, dims, empty, filled, structured, with_shape
from ..rules import LINALG
from ..sequences import clamped, in_parallel, part, repeat, when
from . import selection
from .candidates import candidates

# The time of counting grows with the square of the number of elements, in vectors; that of sorting by digits grows
# with their number, one by one. Measured with random float32, both take the same time at about 160 elements.
_MOST_COUNTED = 128
_DIGIT = 8
"""Bits of a digit: the counts of all its values take 1 KiB, which the L1 cache holds."""
# Bytes of keys that are processed at once if only some of them may be data, in two of the widest registers.
_VECTOR_BYTES = 2 * WIDEST_VECTOR_BYTES
# Dropping elements first reads all of them twice more, which pays off if less than this fraction is left.
_FEW = 4


@LINALG.attach(TopKOp)
def top_k(op: TopKOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits indices of [row, k]."""
    shape = shape_of(inputs[0])
    rows, extent = math.prod(shape[:-1]), shape[-1]
    if rows * op.k == 0:
        return [outs[0]]
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    input, count = inputs
    flat, out = with_shape(input, [rows, extent]), with_shape(outs[0], [rows, op.k])
    sort = _by_counting if extent <= _MOST_COUNTED else _by_digits
    stop = clamped(count, extent) if count is not None else None

    def one_row(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        row = part(flat, [at[0], 0], [1, extent], rank=1)
        keys = keys_of(row, dtype, op.largest)
        if stop is not None:
            keys = _last_from(keys, stop)
        if op.k <= selection.MOST and op.k * _FEW <= extent:
            numbers = selection.least(keys, op.k)
            wide = arith.extui(vector_type(op.k, ir.IntegerType.get_signless(64)), numbers)
            return write_row(wide, block, [0, 0], Point((), None, op.k, op.k))
        order = sort(keys, op.k, stop)
        return structured([order], [block], [dims(2)[1:], dims(2)], "pp", lambda index, _: _wide(index))[0]

    return [with_shape(in_parallel([1, op.k], out, one_row), shape_of(outs[0]))]


def _wide(index: ir.Value) -> ir.Value:
    return arith.extui(ir.IntegerType.get_signless(64), index)


def keys_of(values: ir.Value, dtype: np.dtype, largest: bool) -> ir.Value:
    """Returns signed integers that are least for the elements that come first."""
    kind = key_type(dtype)

    def body(item: ir.Value, _: ir.Value) -> ir.Value:
        key = element_key(item, dtype, kind)
        return arith.xori(key, number(-1, kind)) if largest else key

    loops = dims(len(shape_of(values)))
    return structured([values], [empty(shape_of(values), kind)], [loops, loops], "p" * len(loops), body)[0]


def key_type(dtype: np.dtype) -> ir.IntegerType:
    """Returns the type of the keys of elements."""
    return ir.IntegerType.get_signless(64 if dtype.itemsize == 8 else 32)


def element_key(item: ir.Value, dtype: np.dtype, kind: ir.IntegerType) -> ir.Value:
    """Returns a signed integer of the same order as an element."""
    return float_key(item, kind) if is_float(dtype) else _integer_key(item, dtype, kind)


def is_before(key: ir.Value, at: ir.Value, mine: ir.Value, here: ir.Value) -> ir.Value:
    """Returns whether an element comes before another one, given their keys and indices."""
    is_less = arith.cmpi(arith.CmpIPredicate.slt, key, mine)
    is_same = arith.cmpi(arith.CmpIPredicate.eq, key, mine)
    return arith.ori(is_less, arith.andi(is_same, arith.cmpi(arith.CmpIPredicate.slt, at, here)))


def _integer_key(item: ir.Value, dtype: np.dtype, kind: ir.IntegerType) -> ir.Value:
    if dtype.kind in "ub" and dtype.itemsize * 8 < kind.width:
        return arith.extui(kind, item)
    if dtype.kind == "u":
        return arith.xori(item, number(-(1 << (kind.width - 1)), kind))
    return item if item.type == kind else arith.extsi(kind, item)


def float_key(item: ir.Value, kind: ir.IntegerType) -> ir.Value:
    """Returns the bits in the order of the numbers; all NaNs become one above all numbers, both zeros become one."""
    wide = widen(item)
    wide = arith.addf(wide, number(0, wide.type))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, wide, wide)
    bits = arith.bitcast(kind, arith.select(is_nan, number(math.nan, wide.type), wide))
    sign = arith.shrsi(bits, number(kind.width - 1, kind))
    return arith.xori(bits, arith.andi(sign, number((1 << (kind.width - 1)) - 1, kind)))


def _last_from(keys: ir.Value, stop: ir.Value) -> ir.Value:
    """Sets the keys of elements from `stop` on to the greatest possible key."""
    (extent,), kind = shape_of(keys), element_type_of(keys)
    assert isinstance(kind, ir.IntegerType)
    row, places = _together(keys)
    lanes, i32 = row.width, ir.IntegerType.get_signless(32)
    greatest = broadcast(number((1 << (kind.width - 1)) - 1, kind), lanes)

    def masked(start: ir.Value, into: ir.Value) -> ir.Value:
        left = arith.index_cast(i32, arith.subi(stop, start))
        is_kept = arith.cmpi(arith.CmpIPredicate.slt, places, broadcast(left, lanes))
        return write_row(arith.select(is_kept, read_row(into, [start], row), greatest), into, [start], row)

    # Partial vectors are masked: the one that contains `stop`, and the last one if it is partial.
    width, last = value_of(lanes), value_of(extent - lanes)
    keys = masked(arith.minsi(arith.muli(arith.divui(stop, width), width), last), keys)
    (keys,) = repeat(
        arith.ceildivui(stop, width),
        extent // lanes,
        [keys],
        lambda turn, into: [write_row(greatest, into[0], [arith.muli(turn, width)], row)],
    )
    return masked(last, keys) if extent % lanes else keys


def _by_counting(keys: ir.Value, k: int, stop: ir.Value | None) -> ir.Value:
    """Returns the indices of the `k` least keys, in order; elements from `stop` on keep their positions."""
    (extent,) = shape_of(keys)
    i32 = ir.IntegerType.get_signless(32)
    ranks = _ranks(keys) if stop is None else _ranks_before(keys, stop)

    def place(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        rank = arith.index_cast(ir.IndexType.get(), tensor.extract(ranks, [index]))
        return [tensor.insert(arith.index_cast(i32, index), carried[0], [rank])]

    (order,) = repeat(0, extent if stop is None else stop, [empty([extent], i32)], place)
    return _unsorted_from(part(order, [0], [k]), stop)


def _ranks(keys: ir.Value) -> ir.Value:
    """Returns the number of elements that come before each one."""
    (extent,), i32 = shape_of(keys), ir.IntegerType.get_signless(32)
    numbers = constant_tensor(range(extent), i32)
    other, own = dims(2)

    def count(key: ir.Value, at: ir.Value, mine: ir.Value, here: ir.Value, so_far: ir.Value) -> ir.Value:
        return arith.addi(so_far, arith.extui(i32, is_before(key, at, mine, here)))

    before = filled(number(0, i32), [extent])
    return structured([keys, numbers] * 2, [before], [[other]] * 2 + [[own]] * 3, "rp", count)[0]


def _ranks_before(keys: ir.Value, stop: ir.Value) -> ir.Value:
    """Like `_ranks`, restricted to the elements before `stop`."""
    (extent,), i32 = shape_of(keys), ir.IntegerType.get_signless(32)
    row, first = _together(keys)
    zeros = broadcast(number(0, i32), row.width)

    def block(turn: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        start = arith.minsi(arith.muli(turn, value_of(row.width)), value_of(extent - row.width))
        mine = read_row(keys, [start], row)
        here = arith.addi(first, broadcast(arith.index_cast(i32, start), row.width))

        def count(other: ir.Value, so_far: list[ir.Value]) -> list[ir.Value]:
            key = broadcast(tensor.extract(keys, [other]), row.width)
            at = broadcast(arith.index_cast(i32, other), row.width)
            return [arith.addi(so_far[0], arith.extui(zeros.type, is_before(key, at, mine, here)))]

        (ranks,) = repeat(0, stop, [zeros], count)
        return [write_row(ranks, carried[0], [start], row)]

    return repeat(0, arith.ceildivui(stop, value_of(row.width)), [empty([extent], i32)], block)[0]


def _together(keys: ir.Value) -> tuple[Point, ir.Value]:
    """Returns a row of keys that are processed at once, and the index of each in it, a vector of i32."""
    (extent,), kind = shape_of(keys), element_type_of(keys)
    assert isinstance(kind, ir.IntegerType)
    lanes = min(_VECTOR_BYTES * 8 // kind.width, extent)
    row = Point((), None, lanes, lanes)
    return row, read_row(constant_tensor(range(lanes), ir.IntegerType.get_signless(32)), [value_of(0)], row)


def _unsorted_from(numbers: ir.Value, stop: ir.Value | None) -> ir.Value:
    """Returns the indices [k] with those from `stop` on replaced by their own positions."""
    if stop is None:
        return numbers
    (k,), i32 = shape_of(numbers), ir.IntegerType.get_signless(32)
    own = repeat(stop, k, [numbers], lambda at, into: [tensor.insert(arith.index_cast(i32, at), into[0], [at])])
    return own[0]


def _by_digits(keys: ir.Value, k: int, stop: ir.Value | None) -> ir.Value:
    """Like `_by_counting`, for long rows."""
    (extent,) = shape_of(keys)
    i32 = ir.IntegerType.get_signless(32)
    kind = element_type_of(keys)
    assert isinstance(kind, ir.IntegerType)
    if k * _FEW < extent:
        found = candidates(keys, k)
        keys, numbers, count = found.keys, found.numbers, found.count
    else:
        count = value_of(extent) if stop is None else stop
        (numbers,) = repeat(
            0, count, [empty([extent], i32)], lambda i, into: [tensor.insert(arith.index_cast(i32, i), into[0], [i])]
        )
    differing = _differing_bits(keys, count)
    for shift in range(0, kind.width, _DIGIT):
        differs = arith.cmpi(arith.CmpIPredicate.ne, _bits(differing, shift, _DIGIT), number(0, kind))
        keys, numbers = when(differs, [keys, numbers], partial(_sorted_by_digit, keys, numbers, count, shift))
    return _unsorted_from(part(numbers, [0], [k]), stop)


def _differing_bits(keys: ir.Value, count: ir.Value) -> ir.Value:
    """Returns a number with the bits in which the first `count` keys are not all alike."""
    first = tensor.extract(keys, [value_of(0)])

    def compare(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [arith.ori(carried[0], arith.xori(first, tensor.extract(keys, [index])))]

    return repeat(0, count, [number(0, first.type)], compare)[0]


def _digit(key: ir.Value, shift: int, bits: int) -> ir.Value:
    """Returns some bits of a key as a bucket number; the sign bit is flipped, so that negative keys come first."""
    kind = ir.IntegerType(key.type)
    if shift + bits == kind.width:
        key = arith.xori(key, number(-(1 << (kind.width - 1)), kind))
    return arith.index_cast(ir.IndexType.get(), _bits(key, shift, bits))


def _bits(key: ir.Value, shift: int, count: int) -> ir.Value:
    """Returns `count` bits of a key, from the bit `shift` on."""
    return arith.andi(arith.shrui(key, number(shift, key.type)), number((1 << count) - 1, key.type))


def _from_both_ends(
    count: ir.Value, carried: list[ir.Value], visit: Callable[[ir.Value, list[ir.Value], bool], list[ir.Value]]
) -> list[ir.Value]:
    """Emits visits of all indices, alternately from the front and from the back.

    Both are in the same loop, so that one need not wait for memory that the other has just written.

    Args:
        count: the number of indices.
        carried: the values that a visit reads and returns.
        visit: emits a visit of an index; the last argument is true at the front.
    """
    half = arith.divui(count, value_of(2))

    def pair(turn: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        back = arith.subi(arith.subi(count, value_of(1)), turn)
        return visit(back, visit(turn, values, True), False)

    carried = repeat(0, half, carried, pair)
    return repeat(half, arith.subi(count, half), carried, lambda middle, values: visit(middle, values, True))


def _counted(buckets: ir.Value, bucket: ir.Value, step: int) -> ir.Value:
    """Adds a number to that of a bucket."""
    more = arith.addi(tensor.extract(buckets, [bucket]), number(step, ir.IntegerType.get_signless(32)))
    return tensor.insert(more, buckets, [bucket])


def _histograms(keys: ir.Value, count: ir.Value, shift: int) -> list[ir.Value]:
    """Returns the number of keys in each bucket, those from the front and those from the back."""
    i32 = ir.IntegerType.get_signless(32)

    def add(index: ir.Value, carried: list[ir.Value], is_front: bool) -> list[ir.Value]:
        front, back = carried
        bucket = _digit(tensor.extract(keys, [index]), shift, _DIGIT)
        return [_counted(front, bucket, 1), back] if is_front else [front, _counted(back, bucket, 1)]

    none = [linalg.fill(number(0, i32), outs=[empty([1 << _DIGIT], i32)]) for _ in range(2)]
    return _from_both_ends(count, none, add)


def _sorted_by_digit(keys: ir.Value, numbers: ir.Value, count: ir.Value, shift: int) -> list[ir.Value]:
    """Returns the first `count` keys and their indices in the order of one digit, in the same memory."""
    i32 = ir.IntegerType.get_signless(32)

    def bounds(bucket: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """Replaces a bucket's numbers of keys by its first place, and by its last one."""
        total, *tables = carried
        starts, lasts = tables
        after = arith.addi(total, arith.addi(*(tensor.extract(table, [bucket]) for table in tables)))
        last = arith.subi(after, number(1, i32))
        return [after, tensor.insert(total, starts, [bucket]), tensor.insert(last, lasts, [bucket])]

    def move(index: ir.Value, carried: list[ir.Value], is_front: bool) -> list[ir.Value]:
        starts, lasts, into, names = carried
        key = tensor.extract(keys, [index])
        bucket = _digit(key, shift, _DIGIT)
        at = arith.index_cast(ir.IndexType.get(), tensor.extract(starts if is_front else lasts, [bucket]))
        return [
            *([_counted(starts, bucket, 1), lasts] if is_front else [starts, _counted(lasts, bucket, -1)]),
            tensor.insert(key, into, [at]),
            tensor.insert(tensor.extract(numbers, [index]), names, [at]),
        ]

    _, *places = repeat(0, 1 << _DIGIT, [number(0, i32), *_histograms(keys, count, shift)], bounds)
    (extent,) = shape_of(keys)
    others = [empty([extent], element_type_of(keys)), empty([extent], i32)]
    found = _from_both_ends(count, [*places, *others], move)[2:]
    # Back in the same memory, where they are also if this digit is left out.
    return [_copied(mine, into) for mine, into in zip(found, (keys, numbers), strict=True)]


def _copied(values: ir.Value, into: ir.Value) -> ir.Value:
    """Emits a copy by vectors, because one by `linalg` is dropped in favour of a second place for the values."""
    (extent,) = shape_of(values)
    row, _ = _together(values)

    def block(turn: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        start = arith.minsi(arith.muli(turn, value_of(row.width)), value_of(extent - row.width))
        return [write_row(read_row(values, [start], row), carried[0], [start], row)]

    return repeat(0, -(-extent // row.width), [into], block)[0]
