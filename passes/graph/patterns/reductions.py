"""Reductions and poolings that can be replaced by simpler ops."""

from __future__ import annotations

from ....dialects.stepwell.movement import ReshapeOp
from ....dialects.stepwell.pooling import AveragePoolOp, MaxPoolOp, SumPoolOp
from ....dialects.stepwell.reduction import (
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
    ReductionOp,
)
from ...ir.rewriting import Pattern, Replacement, defining_op, has_one_use
from ..values import rank_of, static_shape


class ReduceUnitDims(Pattern[ReductionOp]):
    """reduce(x) --> reshape(x), if it only reduces unit dimensions"""

    root = ReductionOp

    def rewrite(self, op: ReductionOp) -> Replacement:
        shape, result = static_shape(op.input), static_shape(op.result)
        if shape is None or result is None:
            return None
        return ReshapeOp(op.input, shape=result).result if all(shape[axis] == 1 for axis in op.axes) else None


class ReduceOfReduce(Pattern[ReductionOp]):
    """reduce(reduce(x, a), b) --> reduce(x, a + b), for maxima and minima, which do not depend on the order"""

    root = (ReduceMaxOp, ReduceMinOp)

    def rewrite(self, op: ReductionOp) -> Replacement:
        inner = defining_op(op.input, type(op))
        if inner is None or not inner.keepdims or not has_one_use(inner.result):
            return None
        rank = rank_of(inner.input)
        axes = tuple(sorted({axis % rank for axis in (*inner.axes, *op.axes)}))
        if not op.keepdims and len(axes) != len(op.axes):
            return None
        return type(op)(inner.input, axes=axes, keepdims=op.keepdims).result


class PoolToReduce(Pattern):
    """average_pool(x) | max_pool(x) | sum_pool(x) --> reduce_mean(x) | reduce_max(x) | reduce_sum(x), if one window
    covers the whole image
    """

    root = (AveragePoolOp, MaxPoolOp, SumPoolOp)

    def rewrite(self, op: AveragePoolOp | MaxPoolOp | SumPoolOp) -> Replacement:
        shape, result = static_shape(op.input), static_shape(op.result)
        if shape is None or result is None or any(op.pads) or any(dilation != 1 for dilation in op.dilations):
            return None
        first = 2 if op.layout == "channels_first" else 1
        axes = tuple(range(first, first + len(op.kernel)))
        for axis, places in zip(axes, op.kernel, strict=True):
            extent = shape[axis]
            if not isinstance(extent, int) or result[axis] != 1 or extent > places:
                return None
        reduction = {AveragePoolOp: ReduceMeanOp, MaxPoolOp: ReduceMaxOp, SumPoolOp: ReduceSumOp}[type(op)]
        return reduction(op.input, axes=axes, keepdims=True).result


class PoolOfNothing(Pattern):
    """average_pool(x) | max_pool(x) --> x, if the window is one element"""

    root = (AveragePoolOp, MaxPoolOp)

    def rewrite(self, op: AveragePoolOp | MaxPoolOp) -> Replacement:
        is_one = set(op.kernel) == {1} and set(op.strides) == {1} and not any(op.pads)
        return op.input if is_one else None


class MeanAfterSqueeze(Pattern[ReshapeOp]):
    """reshape(reduce(x, keepdims)) --> reduce(x), if the reshape drops exactly the reduced dimensions"""

    root = ReshapeOp

    def rewrite(self, op: ReshapeOp) -> Replacement:
        for kind in (ReduceMeanOp, ReduceSumOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp):
            reduction = defining_op(op.input, kind)
            shape = None if reduction is None else static_shape(reduction.input)
            if reduction is None or shape is None or not reduction.keepdims:
                continue
            axes = {axis % len(shape) for axis in reduction.axes}
            kept = tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
            if kept == op.shape and has_one_use(reduction.result):
                return kind(reduction.input, axes=reduction.axes, keepdims=False).result
        return None


PATTERNS: tuple[Pattern, ...] = (
    ReduceUnitDims(),
    ReduceOfReduce(),
    PoolOfNothing(),
    PoolToReduce(),
    MeanAfterSqueeze(),
)
