"""Scatter, sorting and running totals for GPUs: what the elements of the result are, each by itself.

A thread looks at all that may concern its element instead of threads taking turns at one tensor; where that would be
too much, the ops stay the loops that they are for CPUs, and the host runs them.
"""

from __future__ import annotations

import math

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ...dialects.stepwell import movement as ops
from ...dialects.stepwell.cumulative import CumulativeOp
from ...dialects.stepwell.sorting import TopKOp
from ...dialects.types import spec_of_type
from ..linalg_to_vector.loops.indices import value_of
from . import cumulative, scattering, sorting
from .rules import lowers
from .scalars import narrow, number, widen
from .sequences import from_front
from .tensors import copy, dims, element_of, filled, loop_index, shape_of, structured, with_shape

# So many looks take some milliseconds.
_MOST_LOOKS = 1 << 34


@lowers(ops.ScatterOp, on_gpu=True)
def scatter(op: ops.ScatterOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Of [batch, slice, element]: the last update of a slice, or all of them in order."""
    input, indices, updates = inputs
    shape = shape_of(input)
    if 0 in (*shape, *shape_of(updates)):
        return [copy(input, outs[0])]
    batches, extent, size = scattering.around(op.axis, shape)
    count = shape_of(indices)[-1]
    keeps_last = op.reduction == "none"
    if batches * extent * count * (1 if keeps_last else size) > _MOST_LOOKS:
        return scattering.scatter(op, inputs, outs)
    where, changes = with_shape(indices, [batches, count]), with_shape(updates, [batches, count, size])
    whole, out = with_shape(input, [batches, extent, size]), with_shape(outs[0], [batches, extent, size])
    if keeps_last:
        return [with_shape(_last_updates(whole, where, changes, out), shape)]
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    batch, place, element, update = dims(4)

    def add(index: ir.Value, new: ir.Value, old: ir.Value) -> ir.Value:
        return arith.select(
            _is_at(index, loop_index(1), extent), scattering.combined(op.reduction, dtype, new, old), old
        )

    maps = [[batch, update], [batch, update, element], [batch, place, element]]
    return [with_shape(structured([where, changes], [copy(whole, out)], maps, "pppr", add)[0], shape)]


def _last_updates(whole: ir.Value, where: ir.Value, changes: ir.Value, out: ir.Value) -> ir.Value:
    """The elements of `whole`, or of the last change at their place."""
    batches, extent, _ = shape_of(whole)
    i32 = ir.IntegerType.get_signless(32)
    batch, place, update = dims(3)

    def find(index: ir.Value, found: ir.Value) -> ir.Value:
        return arith.select(_is_at(index, loop_index(1), extent), arith.index_cast(i32, loop_index(2)), found)

    none = filled(number(-1, i32), [batches, extent])
    last = structured([where], [none], [[batch, update], [batch, place]], "ppr", find)[0]

    def take(old: ir.Value, found: ir.Value, _: ir.Value) -> ir.Value:
        at = arith.index_cast(ir.IndexType.get(), found)
        new = tensor.extract(changes, [loop_index(0), arith.maxsi(at, value_of(0)), loop_index(2)])
        return arith.select(arith.cmpi(arith.CmpIPredicate.sge, found, number(0, i32)), new, old)

    return structured([whole, last], [out], [dims(3), dims(2), dims(3)], "ppp", take)[0]


def _is_at(index: ir.Value, place: ir.Value, extent: int) -> ir.Value:
    """Whether an index, which may count from the end, is that of a place."""
    inside, is_inside = from_front(index, extent)
    return arith.andi(is_inside, arith.cmpi(arith.CmpIPredicate.eq, inside, place))


@lowers(TopKOp, on_gpu=True)
def top_k(op: TopKOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Indices of [row, k]: of the element before which as many others come as there are places before its own."""
    shape = shape_of(inputs[0])
    rows, extent = math.prod(shape[:-1]), shape[-1]
    if rows * op.k == 0:
        return [outs[0]]
    if rows * extent * extent > _MOST_LOOKS:
        return sorting.top_k(op, inputs, outs)
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    keys = sorting.keys_of(with_shape(inputs[0], [rows, extent]), dtype, op.largest)
    i32, i64 = (ir.IntegerType.get_signless(bits) for bits in (32, 64))
    row, own, other = dims(3)

    def count(key: ir.Value, mine: ir.Value, so_far: ir.Value) -> ir.Value:
        is_before = sorting.is_before(key, loop_index(2), mine, loop_index(1))
        return arith.addi(so_far, arith.extui(i32, is_before))

    none = filled(number(0, i32), [rows, extent])
    ranks = structured([keys, keys], [none], [[row, other], [row, own], [row, own]], "ppr", count)[0]

    def find(rank: ir.Value, found: ir.Value) -> ir.Value:
        is_own = arith.cmpi(arith.CmpIPredicate.eq, rank, arith.index_cast(i32, loop_index(1)))
        return arith.select(is_own, arith.index_cast(i64, loop_index(2)), found)

    first = linalg.fill(number(0, i64), outs=[with_shape(outs[0], [rows, op.k])])
    order = structured([ranks], [first], [[row, other], [row, own]], "ppr", find)[0]
    return [with_shape(order, shape_of(outs[0]))]


@lowers(CumulativeOp, on_gpu=True)
def running_totals(op: CumulativeOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Of [batch, group, place, element]: what all groups before it make, and in its own group the places before it."""
    shape = shape_of(inputs[0])
    if 0 in shape:
        return [outs[0]]
    batches, count, size = scattering.around(op.axis, shape)
    groups = max(divisor for divisor in range(1, math.isqrt(count) + 1) if count % divisor == 0)
    if batches * count * size * (groups + count // groups) > _MOST_LOOKS:
        return cumulative.cumulative(op, inputs, outs)
    totals = cumulative.Totals(op, element_of(inputs[0]))
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
