"""A stable sort of a part of a row by merging, for elements that only a comparison orders.

scf.while (%width < %stop - %start) {
  scf.for %first = %start to %stop step 2 * %width { scf.for %to { merge %from[%first...] into %into[%to] } }
  copy %into to %from }
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, scf, tensor

from ...builders.indices import value_of
from ..sequences import Elements, as_long_as, repeat

_Comparison = Callable[[ir.Value, ir.Value], ir.Value]
"""Returns whether the first of two elements comes before the second one."""


def merge_sorted(values: ir.Value, spare: ir.Value, start: ir.Value, stop: ir.Value, is_less: _Comparison) -> Elements:
    """Sorts the elements from `start` up to `stop`.

    Args:
        values: the elements, [element].
        spare: a tensor like `values` that is overwritten.
        start: index of the first element.
        stop: index after the last one.
        is_less: compares two elements.

    Returns:
        The tensors `values` and `spare`.
    """
    length, last = arith.subi(stop, start), arith.subi(stop, value_of(1))

    def element(source: ir.Value, at: ir.Value) -> ir.Value:
        return tensor.extract(source, [arith.minsi(at, last)])

    def merged(first: ir.Value, width: ir.Value, source: ir.Value, into: ir.Value) -> ir.Value:
        middle = arith.minsi(arith.addi(first, width), stop)
        end = arith.minsi(arith.addi(middle, width), stop)

        def step(to: ir.Value, carried: Elements) -> Elements:
            left, right, into = carried
            mine, other = element(source, left), element(source, right)
            none_left, none_right = _reached(left, middle), _reached(right, end)
            is_right = arith.ori(none_left, arith.andi(is_less(other, mine), arith.xori(none_right, _true())))
            chosen = arith.select(is_right, other, mine)
            forward = arith.index_castui(ir.IndexType.get(), is_right)
            back = arith.subi(value_of(1), forward)
            return [arith.addi(left, back), arith.addi(right, forward), tensor.insert(chosen, into, [to])]

        return repeat(first, end, [first, middle, into], step)[2]

    def is_going(carried: Elements) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.slt, carried[0], length)

    def double(carried: Elements) -> Elements:
        width, source, into = carried
        twice = arith.addi(width, width)
        loop = scf.ForOp(start, stop, twice, [into])
        with ir.InsertionPoint(loop.body):
            scf.YieldOp([merged(loop.induction_variable, width, source, loop.inner_iter_args[0])])
        into = loop.results[0]
        (source,) = repeat(
            start, stop, [source], lambda at, values: [tensor.insert(tensor.extract(into, [at]), values[0], [at])]
        )
        return [twice, source, into]

    return as_long_as(is_going, [value_of(1), values, spare], double)[1:]


def _reached(index: ir.Value, stop: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.sge, index, stop)


def _true() -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(1), 1)
