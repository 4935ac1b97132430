"""Ops that clamp, convert or select values: merged, or dropped if they have no effect."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import CastOp, ClipOp, MaximumOp, MinimumOp, ReluOp, SelectOp
from ....dialects.stepwell.movement import BroadcastToOp
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op
from ..values import dtype_of, is_float, splat_of, static_shape


class ToClip(Pattern):
    """maximum(x, c) | minimum(x, c) --> clip(x), maximum(x, 0) --> relu(x)"""

    root = (MaximumOp, MinimumOp)

    def rewrite(self, op: MaximumOp | MinimumOp) -> Replacement:
        bound = splat_of(op.rhs)
        if bound is None or op.lhs.type != op.result.type or not is_float(op.lhs) or math.isnan(bound):
            return None
        if isinstance(op, MinimumOp):
            return ClipOp(op.lhs, maximum=float(bound)).result
        return ReluOp(op.lhs).result if bound == 0 else ClipOp(op.lhs, minimum=float(bound)).result


class MergeClips(Pattern[ClipOp]):
    """clip(clip(x)) | clip(relu(x)) --> clip(x), clip(x, 0, inf) --> relu(x)"""

    root = ClipOp

    def rewrite(self, op: ClipOp) -> Replacement:
        if op.minimum == 0 and op.maximum == math.inf:
            return ReluOp(op.input).result
        inner, relu = defining_op(op.input, ClipOp), defining_op(op.input, ReluOp)
        if inner is None and relu is None:
            return None
        low, high = (0.0, math.inf) if inner is None else (inner.minimum, inner.maximum)
        # clip(clip(x, a, b), c, d) also clamps the bounds of the inner one.
        low, high = min(max(low, op.minimum), op.maximum), min(max(high, op.minimum), op.maximum)
        source = relu.input if relu is not None else inner.input if inner is not None else op.input
        return ClipOp(source, minimum=low, maximum=high).result


class ReluOfClip(Pattern[ReluOp]):
    """relu(clip(x, a, b)) --> clip(x, max(a, 0), max(b, 0))"""

    root = ReluOp

    def rewrite(self, op: ReluOp) -> Replacement:
        inner = defining_op(op.input, ClipOp)
        if inner is None:
            return None
        return ClipOp(inner.input, minimum=max(inner.minimum, 0.0), maximum=max(inner.maximum, 0.0)).result


class MergeCasts(Pattern[CastOp]):
    """cast(x) to its own type --> x, cast(cast(x, wide), b) --> cast(x, b)"""

    root = CastOp

    def rewrite(self, op: CastOp) -> Replacement:
        if op.input.type == op.result.type:
            return op.input
        inner = defining_op(op.input, CastOp)
        if inner is None:
            return None
        if not _holds(inner.input, op.input):
            source, middle = dtype_of(inner.input), dtype_of(op.input)
            return Refusal(f"the cast from {source} to {middle} loses precision or range")
        return CastOp(inner.input, dtype=op.dtype).result


def _holds(source: ir.Value, middle: ir.Value) -> bool:
    """Returns whether the element type of `middle` has all numbers of the element type of `source`."""
    before, after = dtype_of(source), dtype_of(middle)
    if is_float(middle) and not is_float(source):
        # Numpy calls casts from 64-bit integers to float64 safe, and from bytes to floats of 8 bits.
        return before == np.bool_ or ml_dtypes.iinfo(before).max < 2 ** (ml_dtypes.finfo(after).nmant + 1)
    return np.can_cast(before, after, "safe")


class SelectOfConstant(Pattern[SelectOp]):
    """select(true, x, y) --> x, select(c, x, x) --> x"""

    root = SelectOp

    def rewrite(self, op: SelectOp) -> Replacement:
        chosen = splat_of(op.condition)
        if chosen is None and op.on_true != op.on_false:
            return None
        value: ir.Value = op.on_true if chosen or chosen is None else op.on_false
        shape = static_shape(op.result)
        if value.type == op.result.type:
            return value
        return None if shape is None else BroadcastToOp(value, shape=shape).result


PATTERNS: tuple[Pattern, ...] = (ToClip(), MergeClips(), ReluOfClip(), MergeCasts(), SelectOfConstant())
