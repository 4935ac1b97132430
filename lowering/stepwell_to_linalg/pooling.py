"""Pooling: a reduction over the window. Padding is a tensor.pad with the neutral element, which loops skip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ...dialects.stepwell import pooling as ops
from ...dialects.stepwell.planar import PlanarConvOp
from ...dialects.stepwell.windows import Window
from ...dialects.types import spec_of_type
from ...passes.ir.values import element_type_of, shape_of
from ..builders import scalars
from ..builders.generics import multiply_add
from ..builders.scalars import narrow, number, widen
from ..builders.tensors import (
    constant_tensor,
    dims,
    elementwise_generic,
    empty,
    filled,
    loop_index,
    pad_with,
    structured,
)
from .reduction import extreme, wins
from .rules import LINALG
from .sequences import part


def _spatial(op: Any, rank: int) -> range:
    return range(2, rank) if op.layout == "channels_first" else range(1, rank - 1)


def _windowed(op: Any, value: ir.Value, neutral: ir.Value, body: Any) -> ir.Value:
    """Reduces every window position of `value`, in the type of `neutral`."""
    kernel = _clipped_kernel(op, value)
    around, exprs = _around(op, value, neutral, kernel)
    result = list(ir.RankedTensorType(op.operation.results[0].type).shape)
    window, out, loops = empty(kernel, neutral.type), filled(neutral, result), dims(_loops(op))
    maps = [exprs, loops[len(result) :], loops[: len(result)]]
    return structured([around, window], [out], maps, _iterators(op), body)[0]


def _clipped_kernel(op: Any, value: ir.Value) -> tuple[int, ...]:
    """Returns the kernel of a pooling without taps that only read padding, so that its size is bounded by the data."""
    shape = shape_of(value)
    extents = [shape[axis] for axis in _spatial(op, len(shape))]
    return Window(tuple(op.kernel), tuple(op.strides), tuple(op.pads), tuple(op.dilations)).clipped(extents).kernel


def _loops(op: Any) -> int:
    """Returns the number of loops over the result and over the window."""
    return len(_iterators(op))


def _iterators(op: Any) -> str:
    return "p" * (len(op.kernel) + 2) + "r" * len(op.kernel)


def _around(op: Any, value: ir.Value, neutral: ir.Value, kernel: Sequence[int]) -> tuple[ir.Value, list[ir.AffineExpr]]:
    """Returns `value` with its padding, and its index expressions in the loops over the result and the window."""
    shape, result = list(shape_of(value)), shape_of(op.operation.results[0])
    rank, spatial = len(shape), _spatial(op, len(shape))
    low, high = [0] * rank, [0] * rank
    for index, axis in enumerate(spatial):
        reach = (result[axis] - 1) * op.strides[index] + (kernel[index] - 1) * op.dilations[index] + 1
        low[axis] = op.pads[index]
        if result[axis] == 1:
            # Cuts off elements that the only window does not reach: a loop of one iteration does not determine the
            # extent.
            shape[axis] = min(shape[axis], reach - low[axis])
        high[axis] = max(0, reach - shape[axis] - low[axis])
    value = part(value, [0] * rank, shape) if tuple(shape) != shape_of(value) else value
    outside = neutral if element_type_of(value) == neutral.type else narrow(neutral, element_type_of(value))
    around = pad_with(value, low, high, outside)
    loops = dims(rank + len(spatial))
    exprs = list(loops[:rank])
    for index, axis in enumerate(spatial):
        exprs[axis] = loops[axis] * op.strides[index] + loops[rank + index] * op.dilations[index]
    return around, exprs


@LINALG.attach(ops.MaxPoolOp)
def max_pool(op: ops.MaxPoolOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the greatest element of each window; NaN if one is."""
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    neutral = number(extreme(dtype, -1), element_type_of(inputs[0]))
    return [_windowed(op, inputs[0], neutral, lambda item, _, best: scalars.maximum(item, best, dtype))]


@LINALG.attach(ops.MaxPoolIndicesOp)
def max_pool_indices(op: ops.MaxPoolIndicesOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the greatest element of each window and its index together; of equal elements and of NaNs, the first."""
    dtype, shape = spec_of_type(op.operation.operands[0].type).dtype, shape_of(inputs[0])
    result, i64 = shape_of(outs[0]), ir.IntegerType.get_signless(64)
    spatial = _spatial(op, len(shape))
    neutral = number(extreme(dtype, -1), element_type_of(inputs[0]))
    kernel = _clipped_kernel(op, inputs[0])
    around, exprs = _around(op, inputs[0], neutral, kernel)
    # An index beyond the last one: the first element always wins against it.
    behind = math.prod(shape[axis] for axis in spatial)
    starts = [filled(neutral, result), filled(number(behind, i64), result)]

    def body(item: ir.Value, _: ir.Value, best: ir.Value, at: ir.Value) -> list[ir.Value]:
        here = _number(op, [shape[axis] for axis in spatial], spatial)
        takes = wins(item, best, here, at, dtype)
        return [arith.select(takes, item, best), arith.select(takes, here, at)]

    loops = dims(_loops(op))
    maps = [exprs, loops[len(result) :], loops[: len(result)], loops[: len(result)]]
    return [structured([around, empty(kernel, neutral.type)], starts, maps, _iterators(op), body)[1]]


def _number(op: Any, extents: list[int], spatial: range) -> ir.Value:
    """Emits the linear index of the element that a tap of the window reads; for padding, an index too large to win."""
    i64 = ir.IntegerType.get_signless(64)
    here, is_inside = number(0, i64), number(1, ir.IntegerType.get_signless(1))
    for index, axis in enumerate(spatial):
        start, tap = (arith.index_cast(i64, loop_index(dim)) for dim in (axis, len(extents) + 2 + index))
        place = arith.addi(
            arith.muli(start, number(op.strides[index], i64)), arith.muli(tap, number(op.dilations[index], i64))
        )
        place = arith.subi(place, number(op.pads[index], i64))
        # As unsigned numbers, negative ones are the greatest.
        inside = arith.cmpi(arith.CmpIPredicate.ult, place, number(extents[index], i64))
        here = arith.addi(arith.muli(here, number(extents[index], i64)), place)
        is_inside = arith.andi(is_inside, inside)
    return arith.select(is_inside, here, number(math.prod(extents), i64))


def _total(op: Any, value: ir.Value) -> ir.Value:
    """Emits the sum of each window, in the compute type."""
    wide = scalars.compute_type(element_type_of(value))
    return _windowed(op, value, number(0, wide), lambda item, _, so_far: arith.addf(so_far, widen(item)))


@LINALG.attach(ops.SumPoolOp)
def sum_pool(op: ops.SumPoolOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the sum of each window."""
    total, element = _total(op, inputs[0]), element_type_of(inputs[0])
    if element_type_of(total) == element:
        return [total]
    return [elementwise_generic([total], outs[0], lambda item: narrow(item, element))]


@LINALG.attach(PlanarConvOp)
def planar_conv(op: PlanarConvOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the sum of each window, with its elements weighted by the channel's filter."""
    value, weight = inputs
    result, element = shape_of(outs[0]), element_type_of(value)
    wide = scalars.compute_type(element)
    around, exprs = _around(op, value, number(0, wide), op.kernel)
    loops = dims(_loops(op))
    maps = [exprs, [loops[1], *loops[len(result) :]], loops[: len(result)]]

    def body(item: ir.Value, factor: ir.Value, so_far: ir.Value) -> ir.Value:
        return multiply_add(item, factor, so_far)

    total = structured([around, weight], [filled(number(0, wide), result)], maps, _iterators(op), body)[0]
    if wide == element:
        return [total]
    return [elementwise_generic([total], outs[0], lambda item: narrow(item, element))]


@LINALG.attach(ops.AveragePoolOp)
def average_pool(op: ops.AveragePoolOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits the sum of each window divided by its number of counted elements: a product of one number per dimension."""
    (value,) = inputs
    shape, element = shape_of(value), element_type_of(value)
    wide = scalars.compute_type(element)
    total = _total(op, value)
    rank, result = len(shape), shape_of(total)
    loops = dims(rank)
    tables, maps = [], []
    factor = 1
    for index, axis in enumerate(_spatial(op, rank)):
        counts = _counts(op, index, shape[axis], result[axis])
        if len(set(counts)) == 1:
            factor *= counts[0]
        else:
            tables.append(constant_tensor(counts, wide))
            maps.append([loops[axis]])

    def body(item: ir.Value, *others: ir.Value) -> ir.Value:
        count = number(factor, wide)
        for other in others[:-1]:
            count = arith.mulf(count, other)
        return narrow(arith.divf(item, count), element)

    return structured([total, *tables], [outs[0]], [loops, *maps, loops], "p" * rank, body)


def _counts(op: ops.AveragePoolOp, index: int, extent: int, positions: int) -> list[int]:
    """Returns how many elements of the window count at each position along one dimension."""
    low, high = op.pads[index], op.pads[index + len(op.kernel)]
    first, last = (-low, extent + high) if op.count_include_pad else (0, extent)
    taps = np.arange(op.kernel[index]) * op.dilations[index]
    starts = np.arange(positions) * op.strides[index] - low
    at = starts[:, None] + taps[None, :]
    return [int(count) for count in ((at >= first) & (at < last)).sum(1)]
