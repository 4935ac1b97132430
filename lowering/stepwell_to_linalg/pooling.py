"""Pooling: a reduction over the window. Padding is a tensor.pad with the neutral element, which loops skip."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ...dialects.stepwell import pooling as ops
from ...dialects.types import spec_of_type
from . import scalars
from .reduction import extreme
from .rules import lowers
from .scalars import narrow, number, widen
from .tensors import constant_tensor, dims, element_of, empty, filled, pad_with, shape_of, structured


def _spatial(op: Any, rank: int) -> range:
    return range(2, rank) if op.layout == "channels_first" else range(1, rank - 1)


def _windowed(op: Any, value: ir.Value, neutral: ir.Value, body: Any) -> ir.Value:
    """The reduction of every window position of `value`, in the type of `neutral`."""
    shape, result = shape_of(value), list(ir.RankedTensorType(op.operation.results[0].type).shape)
    rank, spatial = len(shape), _spatial(op, len(shape))
    low, high = [0] * rank, [0] * rank
    for index, axis in enumerate(spatial):
        reach = (result[axis] - 1) * op.strides[index] + (op.kernel[index] - 1) * op.dilations[index] + 1
        low[axis] = op.pads[index]
        high[axis] = max(0, reach - shape[axis] - low[axis])
    outside = neutral if element_of(value) == neutral.type else narrow(neutral, element_of(value))
    around = pad_with(value, low, high, outside)
    loops = dims(rank + len(spatial))
    exprs = list(loops[:rank])
    for index, axis in enumerate(spatial):
        exprs[axis] = loops[axis] * op.strides[index] + loops[rank + index] * op.dilations[index]
    window, out = empty(op.kernel, neutral.type), filled(neutral, result)
    iterators = "p" * rank + "r" * len(spatial)
    return structured([around, window], [out], [exprs, loops[rank:], loops[:rank]], iterators, body)[0]


@lowers(ops.MaxPoolOp)
def max_pool(op: ops.MaxPoolOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """The greatest element of each window; NaN if one is."""
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    neutral = number(extreme(dtype, -1), element_of(inputs[0]))
    return [_windowed(op, inputs[0], neutral, lambda item, _, best: scalars.maximum(item, best, dtype))]


@lowers(ops.AveragePoolOp)
def average_pool(op: ops.AveragePoolOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """The sum of each window, divided by how many elements of it count: a product of one number per dimension."""
    (value,) = inputs
    shape, element = shape_of(value), element_of(value)
    wide = scalars.compute_type(element)
    total = _windowed(op, value, number(0, wide), lambda item, _, so_far: arith.addf(so_far, widen(item)))
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
    """How many elements of the window count at each position of one dimension."""
    low, high = op.pads[index], op.pads[index + len(op.kernel)]
    first, last = (-low, extent + high) if op.count_include_pad else (0, extent)
    taps = np.arange(op.kernel[index]) * op.dilations[index]
    starts = np.arange(positions) * op.strides[index] - low
    at = starts[:, None] + taps[None, :]
    return [int(count) for count in ((at >= first) & (at < last)).sum(1)]
