"""Running totals in vectors: of contiguous columns, or of neighbours in a row by prefix sums in a few steps; for GPUs
each total alone, as in `element_by_element`.

scf.forall (%batch, %, %part) shared_outs(%block = %out) {
  scf.for %row iter_args(%total, %block) { %total += vector.transfer_read; vector.transfer_write %total }
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

from ...dialects.stepwell.cumulative import CumulativeOp
from ...machines.families import WIDEST_VECTOR_BYTES
from ...passes.ir.values import element_type_of, shape_of
from ..builders.access import Point, broadcast, read_row, vector_type, write_row
from ..builders.indices import Index, value_of
from ..builders.scalars import compute_type, narrow, number, widen
from ..builders.tensors import dims, filled, loop_index, structured, with_shape
from .element_by_element import MOST_READS
from .positions.scattering import around
from .rules import LINALG, LINALG_BY_ELEMENT
from .sequences import in_parallel, part, repeat

# Bytes per vector: one register for totals of neighbours; for columns, enough to hide the latency of an addition.
_NEIGHBOURS, _COLUMNS = WIDEST_VECTOR_BYTES, 4 * WIDEST_VECTOR_BYTES
# Minimum number of elements of a parallel block.
_BLOCK = 1 << 13


@LINALG.attach(CumulativeOp)
def cumulative(op: CumulativeOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits totals of [batch, position, element]."""
    shape = shape_of(inputs[0])
    if 0 in shape:
        return [outs[0]]
    box = around(op.axis, shape)
    batches, count, size = box
    source, out = with_shape(inputs[0], list(box)), with_shape(outs[0], list(box))
    totals = Totals(op, element_type_of(source))
    widest = max(1, (_NEIGHBOURS if size == 1 else _COLUMNS) * 8 // totals.wide.width)
    width = size if size % widest else _divisor(size, max(1, _BLOCK // (count * widest)) * widest)
    steps = [_divisor(batches, max(1, _BLOCK // (count * width))), count, width]

    def block_of(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        given = part(source, at, steps)
        run = _along_rows if size == 1 else _down_columns
        return repeat(0, steps[0], [block], lambda row, made: [run(totals, given, made[0], row, widest)])[0]

    return [with_shape(in_parallel(steps, out, block_of), shape)]


@LINALG_BY_ELEMENT.attach(CumulativeOp)
def running_totals(op: CumulativeOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits [batch, group, position, element]: the total of the groups before, and of the group up to the position."""
    shape = shape_of(inputs[0])
    if 0 in shape:
        return [outs[0]]
    batches, count, size = around(op.axis, shape)
    groups = max(divisor for divisor in range(1, math.isqrt(count) + 1) if count % divisor == 0)
    if batches * count * size * (groups + count // groups) > MOST_READS:
        return cumulative(op, inputs, outs)
    totals = Totals(op, element_type_of(inputs[0]))
    neutral = number(totals.neutral, totals.wide)
    box = [batches, groups, count // groups, size]
    source, out = with_shape(inputs[0], box), with_shape(outs[0], box)
    batch, group, own, element, other = dims(5)

    def comes_before(theirs: ir.Value, mine: ir.Value, itself: bool) -> ir.Value:
        kind = arith.CmpIPredicate
        up, down = (kind.sle, kind.sge) if itself else (kind.slt, kind.sgt)
        return arith.cmpi(down if op.reverse else up, theirs, mine)

    def add_all(item: ir.Value, total: ir.Value) -> ir.Value:
        return totals.combined(total, widen(item))

    none = filled(neutral, [batches, groups, size])
    maps = [[batch, group, element, own], [batch, group, own]]
    of_groups = structured([source], [none], maps, "pppr", add_all)[0]

    def add_group(item: ir.Value, total: ir.Value) -> ir.Value:
        is_before = comes_before(loop_index(3), loop_index(1), itself=False)
        return arith.select(is_before, totals.combined(total, item), total)

    maps = [[batch, element, own], [batch, group, own]]
    before = structured([of_groups], [filled(neutral, [batches, groups, size])], maps, "pppr", add_group)[0]

    def add_place(item: ir.Value, total: ir.Value) -> ir.Value:
        is_before = comes_before(loop_index(4), loop_index(2), itself=not op.exclusive)
        return arith.select(is_before, totals.combined(total, widen(item)), total)

    maps = [[batch, group, other, element], [batch, group, own, element]]
    within = structured([source], [filled(neutral, box)], maps, "ppppr", add_place)[0]
    maps = [[batch, group, element], dims(4), dims(4)]

    def both(earlier: ir.Value, later: ir.Value, _: ir.Value) -> ir.Value:
        return narrow(totals.combined(earlier, later), totals.kind)

    return [with_shape(structured([before, within], [out], maps, "pppp", both)[0], shape)]


def _divisor(total: int, wanted: int) -> int:
    """Returns the least divisor of `total` that is not less than `wanted`."""
    return next(total // count for count in range(min(total, max(1, total // wanted)), 0, -1) if total % count == 0)


@dataclass
class Totals:
    """Reading, combining and writing of the elements."""

    op: CumulativeOp
    kind: ir.Type

    @property
    def wide(self) -> ir.IntegerType | ir.FloatType:
        """Type in which totals are computed."""
        wide = compute_type(self.kind)
        assert isinstance(wide, ir.IntegerType | ir.FloatType)
        return wide

    @property
    def neutral(self) -> int:
        """Neutral element of the operation."""
        return 0 if self.op.mode == "sum" else 1

    def start(self, lanes: int) -> ir.Value:
        """Returns the neutral element in every lane."""
        return broadcast(number(self.neutral, self.wide), lanes)

    def combined(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """Returns the combination of two totals."""
        is_float = isinstance(self.wide, ir.FloatType)
        if self.op.mode == "sum":
            return arith.addf(lhs, rhs) if is_float else arith.addi(lhs, rhs)
        return arith.mulf(lhs, rhs) if is_float else arith.muli(lhs, rhs)

    def read(self, source: ir.Value, at: Sequence[Index], lanes: int) -> ir.Value:
        """Reads neighbours from an index on."""
        value = read_row(source, at, Point((), None, lanes, lanes))
        return value if self.kind == self.wide else arith.extf(vector_type(lanes, self.wide), value)

    def written(self, value: ir.Value, into: ir.Value, at: Sequence[Index]) -> ir.Value:
        """Returns `into` with neighbours written from an index on."""
        lanes = ir.VectorType(value.type).shape[0]
        value = value if self.kind == self.wide else arith.truncf(vector_type(lanes, self.kind), value)
        return write_row(value, into, at, Point((), None, lanes, lanes))

    def moved(self, value: ir.Value, by: int) -> ir.Value:
        """Moves each lane by `by` lanes in the direction of the totals, and fills up with the neutral element."""
        lanes = ir.VectorType(value.type).shape[0]
        sources = [lane + by if self.op.reverse else lane - by for lane in range(lanes)]
        return vector.shuffle(self.start(lanes), value, [lanes + lane if 0 <= lane < lanes else 0 for lane in sources])


def pieces(extent: int, widest: int) -> list[tuple[int, int, int]]:
    """Cuts an extent into runs of vectors: the start, the lanes of each vector, and the number of vectors."""
    whole = extent // widest
    found, start = ([(0, widest, whole)] if whole else []), whole * widest
    for lanes in (1 << bit for bit in reversed(range((extent - start).bit_length()))):
        if (extent - start) & lanes:
            found.append((start, lanes, 1))
            start += lanes
    return found


def _down_columns(totals: Totals, source: ir.Value, into: ir.Value, row: ir.Value, widest: int) -> ir.Value:
    """Emits totals of contiguous elements; `source` is [row, place, element]."""
    _, count, size = shape_of(source)
    is_reverse, is_exclusive = totals.op.reverse, totals.op.exclusive
    for start, lanes, many in pieces(size, widest):

        def columns(number_: ir.Value, made: list[ir.Value], start: int = start, lanes: int = lanes) -> list[ir.Value]:
            column = place_of(start, number_, lanes)

            def step(place: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                total, made = carried
                at = [row, arith.subi(value_of(count - 1), place) if is_reverse else place, column]
                after = totals.combined(total, totals.read(source, at, lanes))
                return [after, totals.written(total if is_exclusive else after, made, at)]

            return repeat(0, count, [totals.start(lanes), made[0]], step)[1:]

        (into,) = repeat(0, many, [into], columns)
    return into


def _along_rows(totals: Totals, source: ir.Value, into: ir.Value, row: ir.Value, widest: int) -> ir.Value:
    """Emits totals of neighbours: each lane adds the lane 1, 2, 4, .. before it, then the total before the vector."""
    count, is_reverse = shape_of(source)[1], totals.op.reverse
    # Read as rows: vectors run along the last dimension.
    lines, made = (with_shape(value, shape_of(value)[:2]) for value in (source, into))
    carry = totals.start(1)
    for start, lanes, many in pieces(count, widest):
        # The first vector of a row is the last one if the row is read backwards.
        first = count - start - lanes * many if is_reverse else start
        carry = vector.shuffle(carry, carry, [0] * lanes)

        def step(
            number_: ir.Value, carried: list[ir.Value], first: int = first, lanes: int = lanes, many: int = many
        ) -> list[ir.Value]:
            before, made = carried
            turn = arith.subi(value_of(many - 1), number_) if is_reverse else number_
            at = [row, place_of(first, turn, lanes)]
            total = totals.read(lines, at, lanes)
            for by in (1 << bit for bit in range(int(math.log2(lanes)))):
                total = totals.combined(total, totals.moved(total, by))
            own = totals.moved(total, 1) if totals.op.exclusive else total
            last = vector.shuffle(total, total, [0 if is_reverse else lanes - 1] * lanes)
            return [totals.combined(before, last), totals.written(totals.combined(before, own), made, at)]

        carry, made = repeat(0, many, [carry, made], step)
    return with_shape(made, shape_of(into))


def place_of(start: int, number_: ir.Value, lanes: int) -> ir.Value:
    """Returns the start of the vector with a number."""
    return arith.addi(arith.muli(number_, value_of(lanes)), value_of(start))
