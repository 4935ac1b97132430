"""Equal rows: sorting by merging, and passes along the sorted order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ....dialects.stepwell.grouping import NumberGroupsOp, SortRowsOp, SummarizeGroupsOp
from ....dialects.types import is_float, spec_of_type
from ....passes.ir.values import shape_of
from ...builders.indices import value_of
from ...builders.scalars import number
from ...builders.tensors import dims, empty, structured
from ..rules import LINALG
from ..sequences import Elements, as_long_as, from_front, repeat, when
from .merging import merge_sorted
from .sorting import element_key, key_type, keys_of


def _i(width: int) -> ir.IntegerType:
    return ir.IntegerType.get_signless(width)


@LINALG.attach(SortRowsOp)
def sort_rows(op: SortRowsOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a merge sort of the indices, which compares the keys of rows column by column."""
    count, width = shape_of(inputs[0])
    if count == 0:
        return [outs[0]]
    keys = keys_of(inputs[0], spec_of_type(op.operation.operands[0].type).dtype, largest=False)

    def is_less(one: ir.Value, other: ir.Value) -> ir.Value:
        rows = [arith.index_cast(ir.IndexType.get(), row) for row in (one, other)]

        def is_going(carried: Elements) -> ir.Value:
            below = arith.cmpi(arith.CmpIPredicate.slt, carried[0], value_of(width))
            return arith.andi(below, carried[1])

        def compare(carried: Elements) -> Elements:
            mine, theirs = (tensor.extract(keys, [row, carried[0]]) for row in rows)
            same, less = (
                arith.cmpi(order, mine, theirs) for order in (arith.CmpIPredicate.eq, arith.CmpIPredicate.slt)
            )
            return [arith.addi(carried[0], value_of(1)), same, less]

        return as_long_as(is_going, [value_of(0), _bit(True), _bit(False)], compare)[2]

    (numbers,) = repeat(
        0,
        count,
        [empty([count], _i(32))],
        lambda at, into: [tensor.insert(arith.index_cast(_i(32), at), into[0], [at])],
    )
    numbers, _ = merge_sorted(numbers, empty([count], _i(32)), value_of(0), value_of(count), is_less)
    return structured([numbers], [outs[0]], [dims(1), dims(1)], "p", lambda item, _: arith.extui(_i(64), item))


def _bit(value: bool) -> ir.Value:
    return arith.constant(_i(1), int(value))


@LINALG.attach(NumberGroupsOp)
def number_groups(op: NumberGroupsOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a pass along the sorted order; for groups in order of first occurrence, a second pass follows."""
    input, order = inputs
    (count,) = shape_of(order)
    if count == 0:
        return [outs[0]]
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    member, is_equal = _members(input, dtype)

    def row_at(position: ir.Value) -> ir.Value:
        return from_front(tensor.extract(order, [position]), count)[0]

    def along(position: ir.Value, carried: Elements) -> Elements:
        before, current, into = carried
        row = row_at(position)
        mine = member(row)
        differs = arith.xori(is_equal(before, mine), _bit(True))
        if op.is_sorted:
            current = arith.addi(current, arith.extui(_i(64), differs))
        else:
            current = arith.select(differs, arith.index_cast(_i(64), row), current)
        return [mine, current, tensor.insert(current, into, [row])]

    first = row_at(value_of(0))
    start = number(0, _i(64)) if op.is_sorted else arith.index_cast(_i(64), first)
    _, _, found = repeat(1, count, [member(first), start, tensor.insert(start, outs[0], [first])], along)
    if op.is_sorted:
        return [found]

    def renumber(row: ir.Value, carried: Elements) -> Elements:
        next_one, into = carried
        leader, _ = from_front(tensor.extract(into, [row]), count)
        is_new = arith.cmpi(arith.CmpIPredicate.eq, leader, row)
        # The first member comes before the others, so it has its number already.
        chosen = arith.select(is_new, next_one, tensor.extract(into, [leader]))
        more = arith.addi(next_one, arith.extui(_i(64), is_new))
        return [more, tensor.insert(chosen, into, [row])]

    return [repeat(0, count, [number(0, _i(64)), found], renumber)[1]]


def _members(
    input: ir.Value, dtype: np.dtype
) -> tuple[Callable[[ir.Value], ir.Value], Callable[[ir.Value, ir.Value], ir.Value]]:
    """Returns two functions: the key of an element, or the index of a row, by its index; and a comparison of these."""
    shape, kind = shape_of(input), key_type(dtype)

    def key(row: ir.Value) -> ir.Value:
        return element_key(tensor.extract(input, [row]), dtype, kind)

    def is_same_element(one: ir.Value, other: ir.Value) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, one, other)

    def is_same_row(one: ir.Value, other: ir.Value) -> ir.Value:
        def is_going(carried: Elements) -> ir.Value:
            return arith.andi(arith.cmpi(arith.CmpIPredicate.slt, carried[0], value_of(shape[1])), carried[1])

        def step(carried: Elements) -> Elements:
            mine, theirs = (tensor.extract(input, [row, carried[0]]) for row in (one, other))
            equal = is_same_element(*(element_key(item, dtype, kind) for item in (mine, theirs)))
            if is_float(dtype):
                equal = arith.andi(equal, arith.cmpf(arith.CmpFPredicate.OEQ, mine, theirs))
            return [arith.addi(carried[0], value_of(1)), equal]

        return as_long_as(is_going, [value_of(0), _bit(True)], step)[1]

    return (key, is_same_element) if len(shape) == 1 else (lambda row: row, is_same_row)


@LINALG.attach(SummarizeGroupsOp)
def summarize_groups(op: SummarizeGroupsOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a pass over the members, from the last one to the first."""
    (groups,) = inputs
    (count,) = shape_of(groups)
    none = linalg.fill(number(0, _i(64)), outs=[outs[0]])

    def visit(turn: ir.Value, carried: Elements) -> Elements:
        (into,) = carried
        member = arith.subi(value_of(count - 1), turn)
        group = arith.index_cast(ir.IndexType.get(), tensor.extract(groups, [member]))
        is_inside = arith.cmpi(arith.CmpIPredicate.ult, group, value_of(count))

        def change() -> Elements:
            if op.fact == "first":
                fact = arith.index_cast(_i(64), member)
            else:
                fact = arith.addi(tensor.extract(into, [group]), number(1, _i(64)))
            return [tensor.insert(fact, into, [group])]

        return when(is_inside, [into], change)

    return repeat(0, count, [none], visit)
