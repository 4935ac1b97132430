"""Suppression of boxes: classes in parallel; the boxes of a class in the order of their scores, each compared with all
remaining ones at once.

%numbers = the boxes whose score is high enough, as in `selecting`
%items = these, in buckets of descending scores
scf.while (a bucket is left, and fewer than the limit remain) {
  sort the bucket's items
  scf.while (an item is left, and ...) {
    scf.while (remaining boxes are left, and none overlaps) { compare the box with a vector of them }
    write the box after the remaining ones; count it if none overlaps } }

Buckets are sorted only when they are reached, because few boxes are visited if the limit is low.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, math, tensor, vector

from ....dialects.stepwell.boxes import CORNERS, JoinRowsOp, SuppressOp
from ....machines.families import WIDEST_VECTOR_BYTES
from ....passes.ir.values import shape_of
from ...builders.access import Point, broadcast, read_row, vector_type
from ...builders.indices import value_of
from ...builders.scalars import number
from ...builders.tensors import constant_tensor, empty
from ..rules import LINALG
from ..sequences import Elements, as_long_as, clamped, in_parallel, part, repeat
from .merging import merge_sorted
from .selecting import true_elements
from .sorting import float_key

_LANES = WIDEST_VECTOR_BYTES // 4
"""Number of remaining boxes with which a box is compared at once."""
_BUCKET_BITS = 11
"""Maximum number of bits of the number of buckets; the counters of this many fit the first-level cache."""
_EDGES = 5
"""Number of values stored per remaining box: its least and greatest coordinates, and its area."""


@dataclass(frozen=True)
class _Box:
    """A box, or a vector of boxes."""

    low: Sequence[ir.Value]
    high: Sequence[ir.Value]
    area: ir.Value

    @property
    def edges(self) -> list[ir.Value]:
        """The numbers that are stored."""
        return [*self.low, *self.high, self.area]


@LINALG.attach(SuppressOp)
def suppress(op: SuppressOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a loop over the classes."""
    boxes, scores, limit, overlap, least = inputs
    batches, classes, length = shape_of(outs[0])
    if batches * classes == 0:
        return [outs[0]]
    count = shape_of(boxes)[1]
    most = value_of(op.most) if limit is None else clamped(limit, op.most)
    share = number(0, ir.F32Type.get()) if overlap is None else tensor.extract(overlap, [])
    bound = None if least is None else tensor.extract(least, [])

    def one_class(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        kept, row = value_of(0), part(block, [0, 0, 0], [1, 1, length], rank=1)
        if op.most:
            mine = part(scores, [at[0], at[1], 0], [1, 1, count], rank=1)
            own = part(boxes, [at[0], 0, 0], [1, count, CORNERS], rank=2)
            kept, row = _remaining(_buckets(mine, bound), own, op.is_center, row, most, share)
        row = tensor.insert(arith.index_cast(_i(64), kept), row, [value_of(length - 1)])
        return _as_block(row, block)

    return [in_parallel([1, 1, length], outs[0], one_class)]


def _as_block(row: ir.Value, block: ir.Value) -> ir.Value:
    shape = shape_of(block)
    return tensor.InsertSliceOp(row, block, [], [], [], [0] * len(shape), list(shape), [1] * len(shape)).result


def _i(width: int) -> ir.IntegerType:
    return ir.IntegerType.get_signless(width)


@dataclass(frozen=True)
class _Buckets:
    """The boxes of a class in the order of the buckets of their scores, descending.

    Attributes:
        items: i64 [box]: the key of the score, and in the low half the index of the box.
        ends: i32 [bucket]: the index after the last item of each bucket.
    """

    items: ir.Value
    ends: ir.Value


def _buckets(scores: ir.Value, bound: ir.Value | None) -> _Buckets:
    """Distributes the boxes whose scores exceed a bound (all without one) to buckets, in the order of the boxes."""
    (count,) = shape_of(scores)
    bits = min(_BUCKET_BITS, count.bit_length())
    if bound is None:
        total, numbers = value_of(count), None
    else:
        total, numbers = true_elements(scores, empty([count], _i(32)), lambda values: _exceeds(values, bound))

    def key(at: ir.Value, carried: Elements) -> Elements:
        lowest, highest, items = carried
        index = arith.index_cast(_i(32), at) if numbers is None else tensor.extract(numbers, [at])
        score = tensor.extract(scores, [arith.index_cast(ir.IndexType.get(), index)])
        # Unsigned, and least for the greatest score.
        first = arith.xori(float_key(score, _i(32)), number((1 << 31) - 1, _i(32)))
        item = arith.ori(arith.shli(arith.extui(_i(64), first), number(32, _i(64))), arith.extui(_i(64), index))
        return [arith.minui(lowest, first), arith.maxui(highest, first), tensor.insert(item, items, [at])]

    most = number(-1, _i(32))
    lowest, highest, items = repeat(0, total, [most, number(0, _i(32)), empty([count], _i(64))], key)
    width = arith.subi(number(32, _i(32)), math.ctlz(arith.subi(highest, lowest)))
    shift = arith.maxsi(arith.subi(width, number(bits, _i(32))), number(0, _i(32)))
    base, down = arith.extui(_i(64), lowest), arith.extui(_i(64), shift)

    def bucket_of(item: ir.Value) -> ir.Value:
        above = arith.subi(arith.shrui(item, number(32, _i(64))), base)
        return arith.index_cast(ir.IndexType.get(), arith.shrui(above, down))

    def add(at: ir.Value, carried: Elements) -> Elements:
        bucket = bucket_of(tensor.extract(items, [at]))
        more = arith.addi(tensor.extract(carried[0], [bucket]), number(1, _i(32)))
        return [tensor.insert(more, carried[0], [bucket])]

    def start(bucket: ir.Value, carried: Elements) -> Elements:
        before, starts = carried
        size = tensor.extract(starts, [bucket])
        return [arith.addi(before, size), tensor.insert(before, starts, [bucket])]

    def move(at: ir.Value, carried: Elements) -> Elements:
        free, into = carried
        item = tensor.extract(items, [at])
        bucket = bucket_of(item)
        to = tensor.extract(free, [bucket])
        return [
            tensor.insert(arith.addi(to, number(1, _i(32))), free, [bucket]),
            tensor.insert(item, into, [arith.index_cast(ir.IndexType.get(), to)]),
        ]

    none = linalg.fill(number(0, _i(32)), outs=[empty([1 << bits], _i(32))])
    (sizes,) = repeat(0, total, [none], add)
    _, starts = repeat(0, 1 << bits, [number(0, _i(32)), sizes], start)
    ends, ordered = repeat(0, total, [starts, empty([count], _i(64))], move)
    return _Buckets(ordered, ends)


def _exceeds(values: ir.Value, bound: ir.Value) -> ir.Value:
    kind = values.type
    limit = broadcast(bound, kind.shape[0]) if isinstance(kind, ir.VectorType) else bound
    return arith.cmpf(arith.CmpFPredicate.OGT, values, limit)


def _remaining(
    buckets: _Buckets, boxes: ir.Value, is_center: bool, row: ir.Value, most: ir.Value, share: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Returns the number of remaining boxes, and `row` with their indices at its start."""
    (count,), (kinds,) = shape_of(buckets.items), shape_of(buckets.ends)
    room = -(-min(count, shape_of(row)[0]) // _LANES) * _LANES
    zero = value_of(0)

    def is_left(at: ir.Value, stop: ir.Value, kept: ir.Value) -> ir.Value:
        below = arith.cmpi(arith.CmpIPredicate.slt, at, stop)
        return arith.andi(below, arith.cmpi(arith.CmpIPredicate.slt, kept, most))

    def next_bucket(carried: Elements) -> Elements:
        bucket, first, items, spare, *rest = carried
        end = arith.index_cast(ir.IndexType.get(), tensor.extract(buckets.ends, [bucket]))
        items, spare = merge_sorted(
            items, spare, first, end, lambda one, other: arith.cmpi(arith.CmpIPredicate.ult, one, other)
        )

        def next_box(values: Elements) -> Elements:
            at, *state = values
            index = arith.trunci(_i(32), tensor.extract(items, [at]))
            return [arith.addi(at, value_of(1)), *visit(index, state)]

        _, *rest = as_long_as(lambda values: is_left(values[0], end, values[1]), [first, *rest], next_box)
        return [arith.addi(bucket, value_of(1)), end, items, spare, *rest]

    def visit(index: ir.Value, state: Elements) -> Elements:
        kept, row, edges = state
        box = _box(boxes, arith.index_cast(ir.IndexType.get(), index), is_center)
        is_dropped = _overlaps_any(box, edges, kept, share)
        # Overwritten by the next box unless it remains.
        row = tensor.insert(arith.extui(_i(64), index), row, [kept])
        for position, edge in enumerate(box.edges):
            edges = tensor.insert(edge, edges, [value_of(position), kept])
        more = arith.select(is_dropped, kept, arith.addi(kept, value_of(1)))
        return [more, row, edges]

    start = [zero, zero, buckets.items, empty([count], _i(64)), zero, row, empty([_EDGES, room], ir.F32Type.get())]
    found = as_long_as(lambda values: is_left(values[0], value_of(kinds), values[4]), start, next_bucket)
    return found[4], found[5]


def _box(boxes: ir.Value, index: ir.Value, is_center: bool) -> _Box:
    """Reads a box."""
    one, two, three, four = (tensor.extract(boxes, [index, value_of(position)]) for position in range(CORNERS))
    low, high = [], []
    for first, second in ((one, three), (two, four)):
        if is_center:
            half = arith.mulf(second, number(0.5, second.type))
            low.append(arith.subf(first, half))
            high.append(arith.addf(first, half))
        else:
            is_greater = arith.cmpf(arith.CmpFPredicate.OGE, first, second)
            low.append(arith.select(is_greater, second, first))
            high.append(arith.select(is_greater, first, second))
    sides = [arith.subf(end, start) for start, end in zip(low, high, strict=True)]
    return _Box(low, high, arith.mulf(*sides))


def _overlaps_any(box: _Box, edges: ir.Value, kept: ir.Value, share: ir.Value) -> ir.Value:
    """Returns whether a box overlaps any of the first `kept` boxes, whose numbers are columns of `edges`."""
    row = Point((), None, _LANES, _LANES)
    mine = [broadcast(edge, _LANES) for edge in box.edges]
    lanes = read_row(constant_tensor(range(_LANES), _i(32)), [value_of(0)], row)
    no = arith.constant(_i(1), 0)

    def is_going(carried: Elements) -> ir.Value:
        below = arith.cmpi(arith.CmpIPredicate.slt, carried[0], kept)
        return arith.andi(below, arith.cmpi(arith.CmpIPredicate.eq, carried[1], no))

    def compare(carried: Elements) -> Elements:
        start, _ = carried
        theirs = [read_row(edges, [position, start], row) for position in range(_EDGES)]
        left = arith.index_cast(_i(32), arith.subi(kept, start))
        counts = arith.cmpi(arith.CmpIPredicate.slt, lanes, broadcast(left, _LANES))
        found = arith.andi(counts, _overlap(mine, theirs, broadcast(share, _LANES)))
        word = vector.extract(vector.bitcast(vector_type(1, _i(_LANES)), found), [], [0])
        is_any = arith.cmpi(arith.CmpIPredicate.ne, word, number(0, _i(_LANES)))
        return [arith.addi(start, value_of(_LANES)), is_any]

    return as_long_as(is_going, [value_of(0), no], compare)[1]


def _overlap(mine: Sequence[ir.Value], theirs: Sequence[ir.Value], share: ir.Value) -> ir.Value:
    """Returns whether intersection over union exceeds a share, lane by lane; NaN never does."""
    greater = arith.CmpFPredicate.OGT
    low = [_chosen(greater, a, b) for a, b in zip(mine[:2], theirs[:2], strict=True)]
    high = [_chosen(arith.CmpFPredicate.OLT, a, b) for a, b in zip(mine[2:4], theirs[2:4], strict=True)]
    sides = [arith.subf(end, start) for start, end in zip(low, high, strict=True)]
    shared = arith.mulf(*sides)
    union = arith.subf(arith.addf(mine[4], theirs[4]), shared)
    zero = broadcast(number(0, ir.F32Type.get()), _LANES)
    conditions = [arith.cmpf(greater, end, start) for start, end in zip(low, high, strict=True)]
    conditions += [arith.cmpf(greater, value, zero) for value in (shared, union)]
    result = arith.cmpf(greater, arith.divf(shared, union), share)
    for condition in conditions:
        result = arith.andi(result, condition)
    return result


def _chosen(order: arith.CmpFPredicate, one: ir.Value, other: ir.Value) -> ir.Value:
    return arith.select(arith.cmpf(order, one, other), one, other)


@LINALG.attach(JoinRowsOp)
def join_rows(op: JoinRowsOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a loop over the rows, and in it one over their elements."""
    (input,) = inputs
    *around, length = shape_of(input)
    if 0 in (*around, length - 1):
        return [outs[0]]

    def rows_at(at: list[ir.Value], carried: Elements) -> Elements:
        if len(at) < len(around):
            return repeat(0, around[len(at)], carried, lambda index, values: rows_at([*at, index], values))
        filled, into = carried
        stored = arith.index_cast(ir.IndexType.get(), tensor.extract(input, [*at, value_of(length - 1)]))
        count = arith.maxsi(arith.minsi(stored, value_of(length - 1)), value_of(0))

        def write(position: ir.Value, values: Elements) -> Elements:
            to, (into,) = arith.addi(filled, position), values
            for column, index in enumerate(at):
                into = tensor.insert(arith.index_cast(_i(64), index), into, [to, value_of(column)])
            return [tensor.insert(tensor.extract(input, [*at, position]), into, [to, value_of(len(at))])]

        (into,) = repeat(0, count, [into], write)
        return [arith.addi(filled, count), into]

    return [rows_at([], [value_of(0), outs[0]])[1]]
