"""The k least elements, in order: those found so far stay in registers, and all others are compared in vectors.

scf.for %at iter_args(%best, %numbers) {
  %keys = vector.transfer_read; %bits = vector.bitcast (%keys < the last of %best)
  scf.while (%bits != 0) { insert the element of the lowest bit; clear the bit }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, math, tensor, vector

from ....machines.families import WIDEST_VECTOR_BYTES
from ....passes.ir.values import element_type_of, shape_of
from ...builders.access import Point, broadcast, read_row, vector_type
from ...builders.indices import value_of
from ...builders.scalars import number
from ..sequences import as_long_as, repeat

MOST = 32
"""Maximum `k`; this many keys take two or four registers."""

# Bytes of keys that are compared at once, in two of the widest registers.
_VECTOR_BYTES = 2 * WIDEST_VECTOR_BYTES


def least(keys: ir.Value, k: int) -> ir.Value:
    """Returns the indices of the `k` least keys in order, as a vector of i32; of equal keys, the first comes first.

    Args:
        keys: signed integers [element], at least `k`.
        k: number of wanted elements, from 1 to `MOST`.
    """
    (extent,), kind = shape_of(keys), element_type_of(keys)
    assert isinstance(kind, ir.IntegerType)
    chosen = _Chosen(kind, 1 << (k - 1).bit_length())

    def begin(at: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return chosen.with_(tensor.extract(keys, [at]), at, carried, first=True)

    def put(at: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return chosen.with_(tensor.extract(keys, [at]), at, carried)

    found = repeat(0, k, chosen.none(), begin)
    lanes = _VECTOR_BYTES * 8 // kind.width
    whole = (extent - k) // lanes

    def pass_by(turn: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        start = arith.addi(arith.muli(turn, value_of(lanes)), value_of(k))
        last = broadcast(vector.extract(carried[0], [], [k - 1]), lanes)
        row = read_row(keys, [start], Point((), None, lanes, lanes))
        is_before = arith.cmpi(arith.CmpIPredicate.slt, row, last)
        bits = vector.bitcast(vector_type(1, ir.IntegerType.get_signless(lanes)), is_before)
        return _for_each_bit(
            vector.extract(bits, [], [0]), carried, lambda lane, values: put(arith.addi(start, lane), values)
        )

    found = repeat(0, whole, found, pass_by)
    _, numbers = repeat(k + whole * lanes, extent, found, put)
    return vector.shuffle(numbers, numbers, list(range(k)))


class _Chosen:
    """The least keys so far in order, and their indices: two vectors."""

    def __init__(self, kind: ir.IntegerType, lanes: int) -> None:
        self._kind, self._lanes = kind, lanes
        self._i32 = ir.IntegerType.get_signless(32)

    def none(self) -> list[ir.Value]:
        """Returns the state without any element."""
        return [broadcast(number(0, kind), self._lanes) for kind in (self._kind, self._i32)]

    def with_(self, key: ir.Value, at: ir.Value, chosen: Sequence[ir.Value], first: bool = False) -> list[ir.Value]:
        """Inserts an element that comes after all chosen ones in the input, before those with greater keys.

        Args:
            key: its key.
            at: its index.
            chosen: the elements chosen so far.
            first: whether only as many elements as its index says have been chosen yet.
        """
        keys, numbers = chosen
        index = arith.index_cast(self._i32, at)
        low = number(-(1 << (self._kind.width - 1)), self._kind)
        earlier = [self._moved(keys, low), self._moved(numbers, index)]
        key, own = broadcast(key, self._lanes), broadcast(index, self._lanes)
        # Nothing is less than the value before the first lane, so that it never counts as greater.
        is_greater, was_greater = (arith.cmpi(arith.CmpIPredicate.sgt, value, key) for value in (keys, earlier[0]))
        if first:
            is_greater, was_greater = (
                arith.ori(found, arith.cmpi(arith.CmpIPredicate.sge, self._places(start), own))
                for found, start in ((is_greater, 0), (was_greater, -1))
            )
        return [
            arith.select(is_greater, arith.select(was_greater, moved, new), old)
            for old, moved, new in zip((keys, numbers), earlier, (key, own), strict=True)
        ]

    def _moved(self, value: ir.Value, before: ir.Value) -> ir.Value:
        """Returns every lane moved up by one, with `before` in the first lane."""
        return vector.shuffle(broadcast(before, self._lanes), value, [0, *range(self._lanes, 2 * self._lanes - 1)])

    def _places(self, start: int) -> ir.Value:
        kind = vector_type(self._lanes, self._i32)
        items: list[ir.Attribute] = [ir.IntegerAttr.get(self._i32, start + lane) for lane in range(self._lanes)]
        return arith.constant(kind, ir.DenseElementsAttr.get(items, kind))


def _for_each_bit(
    bits: ir.Value, carried: Sequence[ir.Value], body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """Passes `carried` through `body` for every set bit, from the lowest, with the bit's position."""

    def is_any(values: list[ir.Value]) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.ne, values[0], number(0, bits.type))

    def next_one(values: list[ir.Value]) -> list[ir.Value]:
        left, *rest = values
        lane = arith.index_castui(ir.IndexType.get(), math.cttz(left))
        made = body(lane, rest)
        return [arith.andi(left, arith.subi(left, number(1, bits.type))), *made]

    return as_long_as(is_any, [bits, *carried], next_one)[1:]
