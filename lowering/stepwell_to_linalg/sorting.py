"""Sorting: rows in parallel, each by integers in the order of its elements, the least first.

Short rows are sorted by counting, for every element at once, how many come before it. Long ones are sorted digit by
digit from the lowest, which leaves equal ones in their order; where only some elements are wanted, those whose highest
digit is too great are dropped first. Where very few are, those found so far are kept in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ...dialects.stepwell.sorting import TopKOp
from ...dialects.types import is_float, spec_of_type
from ..linalg_to_vector.loops.access import Point, vector_type, write_row
from ..linalg_to_vector.loops.indices import value_of
from . import selection
from .rules import lowers
from .scalars import number, widen
from .sequences import in_parallel, part, repeat
from .tensors import constant_tensor, dims, element_of, empty, filled, shape_of, structured, with_shape

# Counting takes a time that grows with the square of the elements, in vectors; digits with their number, one by one.
_MOST_COUNTED = 256
_DIGIT, _HIGHEST = 8, 11
# Dropping elements first reads all of them twice more, which pays where few are left.
_FEW = 4


@lowers(TopKOp)
def top_k(op: TopKOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Indices of [row, k]."""
    shape = shape_of(inputs[0])
    rows, extent = math.prod(shape[:-1]), shape[-1]
    if rows * op.k == 0:
        return [outs[0]]
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    flat, out = with_shape(inputs[0], [rows, extent]), with_shape(outs[0], [rows, op.k])
    sort = _by_counting if extent <= _MOST_COUNTED else _by_digits

    def one_row(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        row = part(flat, [at[0], 0], [1, extent], rank=1)
        if op.k <= selection.MOST and op.k * _FEW <= extent:
            numbers = selection.least(keys_of(row, dtype, op.largest), op.k)
            wide = arith.extui(vector_type(op.k, ir.IntegerType.get_signless(64)), numbers)
            return write_row(wide, block, [0, 0], Point((), None, op.k, op.k))
        order = sort(keys_of(row, dtype, op.largest), op.k)
        return structured([order], [block], [dims(2)[1:], dims(2)], "pp", lambda index, _: _wide(index))[0]

    return [with_shape(in_parallel([1, op.k], out, one_row), shape_of(outs[0]))]


def _wide(index: ir.Value) -> ir.Value:
    return arith.extui(ir.IntegerType.get_signless(64), index)


def keys_of(values: ir.Value, dtype: np.dtype, largest: bool) -> ir.Value:
    """Signed integers, of which the least are those of the elements that come first."""
    kind = ir.IntegerType.get_signless(64 if dtype.itemsize == 8 else 32)

    def body(item: ir.Value, _: ir.Value) -> ir.Value:
        key = _float_key(item, kind) if is_float(dtype) else _integer_key(item, dtype, kind)
        return arith.xori(key, number(-1, kind)) if largest else key

    loops = dims(len(shape_of(values)))
    return structured([values], [empty(shape_of(values), kind)], [loops, loops], "p" * len(loops), body)[0]


def is_before(key: ir.Value, at: ir.Value, mine: ir.Value, here: ir.Value) -> ir.Value:
    """Whether an element comes before another one, given their keys and places."""
    is_less = arith.cmpi(arith.CmpIPredicate.slt, key, mine)
    is_same = arith.cmpi(arith.CmpIPredicate.eq, key, mine)
    return arith.ori(is_less, arith.andi(is_same, arith.cmpi(arith.CmpIPredicate.slt, at, here)))


def _integer_key(item: ir.Value, dtype: np.dtype, kind: ir.IntegerType) -> ir.Value:
    if dtype.kind in "ub" and dtype.itemsize * 8 < kind.width:
        return arith.extui(kind, item)
    if dtype.kind == "u":
        return arith.xori(item, number(-(1 << (kind.width - 1)), kind))
    return item if item.type == kind else arith.extsi(kind, item)


def _float_key(item: ir.Value, kind: ir.IntegerType) -> ir.Value:
    """The bits, in the order of the numbers; one NaN above all of them and one zero."""
    wide = widen(item)
    wide = arith.addf(wide, number(0, wide.type))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, wide, wide)
    bits = arith.bitcast(kind, arith.select(is_nan, number(math.nan, wide.type), wide))
    sign = arith.shrsi(bits, number(kind.width - 1, kind))
    return arith.xori(bits, arith.andi(sign, number((1 << (kind.width - 1)) - 1, kind)))


def _by_counting(keys: ir.Value, k: int) -> ir.Value:
    """The numbers of the elements with the `k` least keys, in order."""
    (extent,) = shape_of(keys)
    i32 = ir.IntegerType.get_signless(32)
    numbers = constant_tensor(range(extent), i32)
    other, own = dims(2)

    def count(key: ir.Value, at: ir.Value, mine: ir.Value, here: ir.Value, so_far: ir.Value) -> ir.Value:
        return arith.addi(so_far, arith.extui(i32, is_before(key, at, mine, here)))

    before = filled(number(0, i32), [extent])
    ranks = structured([keys, numbers] * 2, [before], [[other]] * 2 + [[own]] * 3, "rp", count)[0]

    def place(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        rank = arith.index_cast(ir.IndexType.get(), tensor.extract(ranks, [index]))
        return [tensor.insert(arith.index_cast(i32, index), carried[0], [rank])]

    (order,) = repeat(0, extent, [empty([extent], i32)], place)
    return part(order, [0], [k])


def _by_digits(keys: ir.Value, k: int) -> ir.Value:
    """As `_by_counting`."""
    (extent,) = shape_of(keys)
    i32 = ir.IntegerType.get_signless(32)
    kind = element_of(keys)
    assert isinstance(kind, ir.IntegerType)
    numbers = empty([extent], i32)
    if k * _FEW < extent:
        keys, numbers, count = _candidates(keys, numbers, k)
    else:
        (numbers,) = repeat(
            0, extent, [numbers], lambda i, into: [tensor.insert(arith.index_cast(i32, i), into[0], [i])]
        )
        count = value_of(extent)
    for shift in range(0, kind.width, _DIGIT):
        keys, numbers = _sorted_by_digit(keys, numbers, count, shift)
    return part(numbers, [0], [k])


def _digit(key: ir.Value, shift: int, bits: int) -> ir.Value:
    """Some bits of a key as a bucket number; the sign bit turned, so that negative keys come first."""
    kind = ir.IntegerType(key.type)
    if shift + bits == kind.width:
        key = arith.xori(key, number(-(1 << (kind.width - 1)), kind))
    low = arith.andi(arith.shrui(key, number(shift, kind)), number((1 << bits) - 1, kind))
    return arith.index_cast(ir.IndexType.get(), low)


def _histogram(keys: ir.Value, count: ir.Value, shift: int, bits: int) -> ir.Value:
    """How many keys lie in each bucket."""
    i32 = ir.IntegerType.get_signless(32)
    none = linalg.fill(number(0, i32), outs=[empty([1 << bits], i32)])

    def add(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        bucket = _digit(tensor.extract(keys, [index]), shift, bits)
        more = arith.addi(tensor.extract(carried[0], [bucket]), number(1, i32))
        return [tensor.insert(more, carried[0], [bucket])]

    return repeat(0, count, [none], add)[0]


def _sorted_by_digit(keys: ir.Value, numbers: ir.Value, count: ir.Value, shift: int) -> tuple[ir.Value, ir.Value]:
    """The first `count` keys and their numbers in the order of one digit."""
    i32 = ir.IntegerType.get_signless(32)

    def start(bucket: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        total, starts = carried
        size = tensor.extract(starts, [bucket])
        return [arith.addi(total, size), tensor.insert(total, starts, [bucket])]

    _, starts = repeat(0, 1 << _DIGIT, [number(0, i32), _histogram(keys, count, shift, _DIGIT)], start)

    def move(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        starts, into, names = carried
        key = tensor.extract(keys, [index])
        bucket = _digit(key, shift, _DIGIT)
        free = tensor.extract(starts, [bucket])
        at = arith.index_cast(ir.IndexType.get(), free)
        return [
            tensor.insert(arith.addi(free, number(1, i32)), starts, [bucket]),
            tensor.insert(key, into, [at]),
            tensor.insert(tensor.extract(numbers, [index]), names, [at]),
        ]

    (extent,) = shape_of(keys)
    _, keys, numbers = repeat(0, count, [starts, empty([extent], element_of(keys)), empty([extent], i32)], move)
    return keys, numbers


def _candidates(keys: ir.Value, numbers: ir.Value, k: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The keys whose highest digit is one that the first `k` have, their numbers, and how many there are."""
    (extent,) = shape_of(keys)
    i32, kind = ir.IntegerType.get_signless(32), element_of(keys)
    assert isinstance(kind, ir.IntegerType)
    shift = kind.width - _HIGHEST
    sizes = _histogram(keys, value_of(extent), shift, _HIGHEST)

    def last(bucket: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        total, found = carried
        is_wanted = arith.cmpi(arith.CmpIPredicate.slt, total, number(k, i32))
        return [arith.addi(total, tensor.extract(sizes, [bucket])), arith.select(is_wanted, bucket, found)]

    _, limit = repeat(0, 1 << _HIGHEST, [number(0, i32), value_of(0)], last)

    def keep(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        count, kept, names = carried
        key = tensor.extract(keys, [index])
        is_kept = arith.cmpi(arith.CmpIPredicate.ule, _digit(key, shift, _HIGHEST), limit)
        return [
            arith.addi(count, arith.select(is_kept, value_of(1), value_of(0))),
            # Written over by the next one unless it counts: there are never more than were looked at.
            tensor.insert(key, kept, [count]),
            tensor.insert(arith.index_cast(i32, index), names, [count]),
        ]

    count, keys, numbers = repeat(0, extent, [value_of(0), empty([extent], kind), numbers], keep)
    return keys, numbers, count
