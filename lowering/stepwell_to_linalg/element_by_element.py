"""Scatter and sorting where every element of the result is computed independently, as GPUs need it.

A thread reads everything that may affect its element, so threads do not take turns at one tensor. If that would be
too much work, the ops are lowered to loops, which the host of a GPU runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ...dialects.stepwell import movement as ops
from ...dialects.stepwell.sorting import TopKOp
from ...dialects.types import spec_of_type
from ...passes.ir.values import element_type_of, shape_of
from ..builders.indices import value_of
from ..builders.scalars import number
from ..builders.tensors import copy, dims, empty, filled, loop_index, structured, with_shape
from .ordering import sorting
from .positions import scattering
from .rules import LINALG_BY_ELEMENT
from .sequences import from_front

MOST_READS = 1 << 34
"""Maximum number of reads of all elements together, which take some milliseconds."""


@LINALG_BY_ELEMENT.attach(ops.ScatterOp)
def scatter(op: ops.ScatterOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits [batch, slice, element]: the last update of a slice, or all updates in order."""
    input, indices, updates, applied = inputs
    counts = [applied] if applied is not None else []
    shape = shape_of(input)
    if 0 in (*shape, *shape_of(updates)):
        return [copy(input, outs[0])]
    batches, extent, size = scattering.around(op.axis, shape)
    count = shape_of(indices)[-1]
    keeps_last = op.reduction == "none"
    if batches * extent * count * (1 if keeps_last else size) > MOST_READS:
        return scattering.scatter(op, inputs, outs)
    where, changes = with_shape(indices, [batches, count]), with_shape(updates, [batches, count, size])
    whole, out = with_shape(input, [batches, extent, size]), with_shape(outs[0], [batches, extent, size])
    if keeps_last:
        return [with_shape(_last_updates(whole, where, changes, out, counts), shape)]
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    batch, place, element, update = dims(4)

    def add(index: ir.Value, new: ir.Value, *rest: ir.Value) -> ir.Value:
        *stop, old = rest
        is_applied = _is_applied(index, extent, loop_index(3), stop)
        return arith.select(is_applied, scattering.combined(op.reduction, dtype, new, old), old)

    none = [[] for _ in counts]
    maps = [[batch, update], [batch, update, element], *none, [batch, place, element]]
    return [with_shape(structured([where, changes, *counts], [copy(whole, out)], maps, "pppr", add)[0], shape)]


def _last_updates(
    whole: ir.Value, where: ir.Value, changes: ir.Value, out: ir.Value, counts: Sequence[ir.Value]
) -> ir.Value:
    """Returns elements of `whole`, or the last change at their position; `counts` may hold the number of changes."""
    batches, extent, _ = shape_of(whole)
    i32 = ir.IntegerType.get_signless(32)
    batch, place, update = dims(3)

    def find(index: ir.Value, *rest: ir.Value) -> ir.Value:
        *stop, found = rest
        is_applied = _is_applied(index, extent, loop_index(2), stop)
        return arith.select(is_applied, arith.index_cast(i32, loop_index(2)), found)

    none = filled(number(-1, i32), [batches, extent])
    maps = [[batch, update], *([] for _ in counts), [batch, place]]
    last = structured([where, *counts], [none], maps, "ppr", find)[0]

    def take(old: ir.Value, found: ir.Value, _: ir.Value) -> ir.Value:
        at = arith.index_cast(ir.IndexType.get(), found)
        new = tensor.extract(changes, [loop_index(0), arith.maxsi(at, value_of(0)), loop_index(2)])
        return arith.select(arith.cmpi(arith.CmpIPredicate.sge, found, number(0, i32)), new, old)

    return structured([whole, last], [out], [dims(3), dims(2), dims(3)], "ppp", take)[0]


def _is_applied(index: ir.Value, extent: int, update: ir.Value, stop: Sequence[ir.Value]) -> ir.Value:
    """Returns whether an update, whose index may count from the end, changes the position of the second loop.

    `stop` holds the number of updates that are applied, an i64, or nothing if all are.
    """
    inside, is_inside = from_front(index, extent)
    found = arith.andi(is_inside, arith.cmpi(arith.CmpIPredicate.eq, inside, loop_index(1)))
    for count in stop:
        here = arith.index_cast(count.type, update)
        found = arith.andi(found, arith.cmpi(arith.CmpIPredicate.slt, here, count))
    return found


@LINALG_BY_ELEMENT.attach(TopKOp)
def top_k(op: TopKOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits indices of [row, k]: place i gets the element that exactly i other elements precede."""
    shape = shape_of(inputs[0])
    rows, extent = math.prod(shape[:-1]), shape[-1]
    if rows * op.k == 0:
        return [outs[0]]
    if rows * extent * extent > MOST_READS:
        return sorting.top_k(op, inputs, outs)
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    keys = sorting.keys_of(with_shape(inputs[0], [rows, extent]), dtype, op.largest)
    if inputs[1] is not None:
        keys = _last_from(keys, inputs[1])
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


def _last_from(keys: ir.Value, count: ir.Value) -> ir.Value:
    """Returns keys [row, element]; the keys of elements from `count` on become the greatest possible."""
    kind = element_type_of(keys)
    assert isinstance(kind, ir.IntegerType)

    def mask(key: ir.Value, stop: ir.Value, _: ir.Value) -> ir.Value:
        is_kept = arith.cmpi(arith.CmpIPredicate.slt, arith.index_cast(stop.type, loop_index(1)), stop)
        return arith.select(is_kept, key, number((1 << (kind.width - 1)) - 1, kind))

    return structured([keys, count], [empty(shape_of(keys), kind)], [dims(2), [], dims(2)], "pp", mask)[0]
