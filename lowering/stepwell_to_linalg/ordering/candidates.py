"""Candidates for the k least elements: those that do not exceed a bound.

Every element belongs to one of several groups. The k-th least of the groups' minima is a bound: k groups have an
element that does not exceed it, and if the elements are in random order, not many more do. All passes use vectors.

%minima = linalg.generic {arith.minsi} ins(%keys : tensor<rows x groups>)
%bound = scf.for %bit { count the %minima that are less than the bound with this bit }
scf.for %at { %bits = vector.bitcast (%keys <= %bound); scf.for math.ctpop(%bits) { append the lowest bit's element } }
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, math, tensor, vector

from ....machines.families import WIDEST_VECTOR_BYTES
from ....passes.ir.values import element_type_of, shape_of
from ...builders.access import Point, broadcast, read_row, vector_type
from ...builders.indices import value_of
from ...builders.scalars import number
from ...builders.tensors import dims, empty, filled, structured, with_shape
from ..sequences import part, repeat

# Bytes of keys that are compared at once, in two of the widest registers.
_VECTOR_BYTES = 2 * WIDEST_VECTOR_BYTES
# Minimum number of groups; fewer groups would not make the passes over them faster.
_LEAST_GROUPS = 64


@dataclass(frozen=True)
class Candidates:
    """Some elements, in the order in which they were found.

    Attributes:
        keys: their keys [element]; undefined from `count` on.
        numbers: their indices as i32 [element].
        count: number of candidates.
    """

    keys: ir.Value
    numbers: ir.Value
    count: ir.Value


def groups_for(k: int) -> int:
    """Returns the number of groups from which a bound of the `k` least elements is found: a power of two."""
    return max(_LEAST_GROUPS, 1 << (2 * k - 1).bit_length())


def candidates(keys: ir.Value, k: int) -> Candidates:
    """Returns the candidates for the `k` least of `keys` [element], which has at least `groups_for(k)` elements.

    Args:
        keys: signed integers.
        k: number of wanted elements, at least 1.
    """
    (extent,), kind = shape_of(keys), element_type_of(keys)
    i32 = ir.IntegerType.get_signless(32)
    assert isinstance(kind, ir.IntegerType)
    bound = _bound(keys, k)
    lanes = _VECTOR_BYTES * 8 // kind.width
    whole = extent // lanes

    def keep(at: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        count, kept, names = found
        return [
            arith.addi(count, value_of(1)),
            tensor.insert(tensor.extract(keys, [at]), kept, [count]),
            tensor.insert(arith.index_cast(i32, at), names, [count]),
        ]

    def pass_by(turn: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        start = arith.muli(turn, value_of(lanes))
        row = read_row(keys, [start], Point((), None, lanes, lanes))
        is_kept = arith.cmpi(arith.CmpIPredicate.sle, row, broadcast(bound, lanes))
        word = ir.IntegerType.get_signless(lanes)
        bits = vector.extract(vector.bitcast(vector_type(1, word), is_kept), [], [0])

        def next_one(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            left, *values = carried
            lane = arith.index_castui(ir.IndexType.get(), math.cttz(left))
            rest = arith.andi(left, arith.subi(left, number(1, word)))
            return [rest, *keep(arith.addi(start, lane), values)]

        return repeat(0, arith.index_castui(ir.IndexType.get(), math.ctpop(bits)), [bits, *found], next_one)[1:]

    def one_by_one(at: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        count, kept, names = keep(at, found)
        is_kept = arith.cmpi(arith.CmpIPredicate.sle, tensor.extract(keys, [at]), bound)
        # Overwritten by the next element unless it counts; there are never more candidates than visited elements.
        return [arith.select(is_kept, count, found[0]), kept, names]

    found = repeat(0, whole, [value_of(0), empty([extent], kind), empty([extent], i32)], pass_by)
    count, kept, names = repeat(whole * lanes, extent, found, one_by_one)
    return Candidates(kept, names, count)


def _bound(keys: ir.Value, k: int) -> ir.Value:
    """Returns a key that at least `k` of `keys` do not exceed."""
    (extent,), kind, groups = shape_of(keys), element_type_of(keys), groups_for(k)
    assert isinstance(kind, ir.IntegerType)
    rows = extent // groups
    grouped = with_shape(part(keys, [0], [rows * groups]), [rows, groups])
    most = filled(number((1 << (kind.width - 1)) - 1, kind), [groups])
    row, group = dims(2)
    minima = structured([grouped], [most], [[row, group], [group]], "rp", lambda key, least: arith.minsi(least, key))[0]
    return _kth_least(minima, k)


def _kth_least(values: ir.Value, k: int) -> ir.Value:
    """Returns the `k`-th least integer, bit by bit: the greatest number with fewer than `k` of `values` below it."""
    kind, i32 = element_type_of(values), ir.IntegerType.get_signless(32)
    assert isinstance(kind, ir.IntegerType)
    highest = number(-(1 << (kind.width - 1)), kind)

    def less_than(limit: ir.Value) -> ir.Value:
        zero = linalg.fill(number(0, i32), outs=[empty([], i32)])
        total = structured(
            [values],
            [zero],
            [dims(1), []],
            "r",
            lambda value, so_far: arith.addi(
                so_far, arith.extui(i32, arith.cmpi(arith.CmpIPredicate.slt, value, limit))
            ),
        )[0]
        return tensor.extract(total, [])

    def decide(turn: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        # The highest bit is the sign; it is set for the lesser numbers.
        bit = arith.shrui(highest, arith.index_cast(kind, turn))
        limit = arith.xori(carried[0], bit)
        is_reached = arith.cmpi(arith.CmpIPredicate.slt, less_than(limit), number(k, i32))
        return [arith.select(is_reached, limit, carried[0])]

    return repeat(0, kind.width, [highest], decide)[0]
