"""Reductions, and the index of the greatest element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ...dialects.stepwell import reduction as ops
from ...dialects.types import is_float, spec_of_type
from ...passes.ir.values import element_type_of, shape_of
from ..builders import scalars
from ..builders.scalars import number
from ..builders.tensors import dims, elementwise_over, filled, loop_index, reduce, structured, with_shape
from .rules import LINALG


def extreme(dtype: np.dtype, sign: int) -> float | int:
    """Returns the greatest (`sign` 1) or least (-1) value of a dtype, infinity for floats."""
    if is_float(dtype):
        return sign * math.inf
    if dtype == np.bool_:
        return int(sign > 0)
    info = np.iinfo(dtype)
    value = info.max if sign > 0 else info.min
    # MLIR writes an unsigned number as the signed one of the same bits.
    return value - (1 << info.bits) if value > np.iinfo(f"i{info.bits // 8}").max else value


def summed(value: ir.Value, axes: tuple[int, ...]) -> ir.Value:
    """Returns the sum over `axes`, which are removed, in the compute type."""
    wide = scalars.compute_type(element_type_of(value))
    add = arith.addf if isinstance(wide, ir.FloatType) else arith.addi
    return reduce(value, axes, number(0, wide), lambda element, total: add(total, scalars.widen(element)))


def _axes(op: Any) -> tuple[int, ...]:
    rank = ir.RankedTensorType(op.operation.operands[0].type).rank
    return tuple(sorted(axis % rank for axis in op.axes))


def _finished(op: Any, value: ir.Value) -> list[ir.Value]:
    return [with_shape(value, list(ir.RankedTensorType(op.operation.results[0].type).shape))]


def _narrowed(value: ir.Value, element: ir.Type) -> ir.Value:
    if element_type_of(value) == element:
        return value
    return elementwise_over([value], lambda item: scalars.narrow(item, element), value, element)


@LINALG.attach(ops.ReduceSumOp)
def reduce_sum(op: ops.ReduceSumOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the sum."""
    return _finished(op, _narrowed(summed(inputs[0], _axes(op)), element_type_of(inputs[0])))


@LINALG.attach(ops.ReduceMeanOp)
def reduce_mean(op: ops.ReduceMeanOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the sum, and its division where it is complete."""
    axes, element = _axes(op), element_type_of(inputs[0])
    count = math.prod(shape_of(inputs[0])[axis] for axis in axes)
    if isinstance(element, ir.IntegerType):
        return _finished(op, _mean_of_integers(op, inputs[0], axes, count))

    def body(total: ir.Value) -> ir.Value:
        return scalars.narrow(arith.divf(total, number(count, total.type)), element)

    total = summed(inputs[0], axes)
    return _finished(op, elementwise_over([total], body, total, element))


def _mean_of_integers(op: ops.ReduceMeanOp, value: ir.Value, axes: tuple[int, ...], count: int) -> ir.Value:
    """Emits the mean, rounded towards zero; the sum has 64 bits, as it would overflow a short integer."""
    element, wide = element_type_of(value), ir.IntegerType.get_signless(64)
    is_unsigned = spec_of_type(op.operation.operands[0].type).dtype.kind == "u"
    extend, divide = (arith.extui, arith.divui) if is_unsigned else (arith.extsi, arith.divsi)
    is_wide = element == wide

    def add(item: ir.Value, total: ir.Value) -> ir.Value:
        return arith.addi(total, item if is_wide else extend(wide, item))

    def body(total: ir.Value) -> ir.Value:
        mean = divide(total, number(count, wide))
        return mean if is_wide else arith.trunci(element, mean)

    total = reduce(value, axes, number(0, wide), add)
    return elementwise_over([total], body, total, element)


@LINALG.attach(ops.ReduceProdOp)
def reduce_prod(op: ops.ReduceProdOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the product."""
    element = element_type_of(inputs[0])
    wide = scalars.compute_type(element)
    multiply = arith.mulf if isinstance(wide, ir.FloatType) else arith.muli
    product = reduce(inputs[0], _axes(op), number(1, wide), lambda item, total: multiply(total, scalars.widen(item)))
    return _finished(op, _narrowed(product, element))


@LINALG.attach(ops.ReduceMaxOp, ops.ReduceMinOp)
def reduce_extreme(op: Any, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the greatest or least element; NaN if one is."""
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    is_max = isinstance(op, ops.ReduceMaxOp)
    combine = scalars.maximum if is_max else scalars.minimum
    start = number(extreme(dtype, -1 if is_max else 1), element_type_of(inputs[0]))
    return _finished(op, reduce(inputs[0], _axes(op), start, lambda item, best: combine(item, best, dtype)))


@LINALG.attach(ops.ArgmaxOp)
def argmax(op: ops.ArgmaxOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits one reduction of value and index together; of equal elements, and of NaNs, the first index wins."""
    (value,) = inputs
    dtype, shape, element = spec_of_type(op.operation.operands[0].type).dtype, shape_of(value), element_type_of(value)
    axis = op.axis % len(shape)
    i64 = ir.IntegerType.get_signless(64)
    kept = [extent for position, extent in enumerate(shape) if position != axis]
    # An index beyond the last one: the first element always wins against it.
    starts = [filled(number(extreme(dtype, -1), element), kept), filled(number(shape[axis], i64), kept)]
    loops = dims(len(shape))
    outer = [loop for position, loop in enumerate(loops) if position != axis]
    iterators = "".join("r" if position == axis else "p" for position in range(len(shape)))

    def body(item: ir.Value, best: ir.Value, at: ir.Value) -> list[ir.Value]:
        here = arith.index_cast(i64, loop_index(axis))
        takes = wins(item, best, here, at, dtype)
        return [arith.select(takes, item, best), arith.select(takes, here, at)]

    return _finished(op, structured([value], starts, [loops, outer, outer], iterators, body)[1])


def wins(item: ir.Value, best: ir.Value, here: ir.Value, at: ir.Value, dtype: np.dtype) -> ir.Value:
    """Returns whether `item` at index `here` replaces `best`; of equal elements, and of NaNs, the first wins."""
    is_earlier = arith.cmpi(arith.CmpIPredicate.slt, here, at)
    if not is_float(dtype):
        more = arith.CmpIPredicate.ugt if dtype.kind in "ub" else arith.CmpIPredicate.sgt
        ties = arith.andi(arith.cmpi(arith.CmpIPredicate.eq, item, best), is_earlier)
        return arith.ori(arith.cmpi(more, item, best), ties)
    item_is_nan = arith.cmpf(arith.CmpFPredicate.UNO, item, item)
    best_is_nan = arith.cmpf(arith.CmpFPredicate.UNO, best, best)
    one = number(1, ir.IntegerType.get_signless(1))
    more = arith.ori(
        arith.cmpf(arith.CmpFPredicate.OGT, item, best), arith.andi(item_is_nan, arith.xori(best_is_nan, one))
    )
    same = arith.ori(arith.cmpf(arith.CmpFPredicate.OEQ, item, best), arith.andi(item_is_nan, best_is_nan))
    return arith.ori(more, arith.andi(same, is_earlier))
