"""Derivatives of softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.stepwell import normalization as ops
from ....dialects.stepwell.elementwise import PowOp, RsqrtOp
from ....dialects.stepwell.pooling import SumPoolOp
from ....dialects.stepwell.reduction import ReduceMeanOp
from ....dialects.stepwell.windows import CHANNELS_FIRST
from ...graph.values import scalar_like
from ...ir.values import shape_of
from ..build import add, count, exp, from_front, mul, neg, reshape, square, sub, to_front, total, unary
from ..derivative import DERIVATIVE, Gradients


def _mean(value: ir.Value, axes: Sequence[int]) -> ir.Value:
    return ReduceMeanOp(value, axes=tuple(axes), keepdims=True).result


@DERIVATIVE.attach(ops.SoftmaxOp)
def softmax(op: ops.SoftmaxOp, gradient: ir.Value) -> Gradients:
    """y * (g - sum(g * y))"""
    return (lambda: mul(op.result, sub(gradient, total(mul(gradient, op.result), [op.axis]))),)


@DERIVATIVE.attach(ops.LogSoftmaxOp)
def log_softmax(op: ops.LogSoftmaxOp, gradient: ir.Value) -> Gradients:
    """g - exp(y) * sum(g)"""
    return (lambda: sub(gradient, mul(exp(op.result), total(gradient, [op.axis]))),)


@DERIVATIVE.attach(ops.LayerNormOp)
def layer_norm(op: ops.LayerNormOp, gradient: ir.Value) -> Gradients:
    """r * (h - mean(h) - n * mean(h * n)), g * n, g with n = (x - mean) * r, r = 1 / deviation, h = g * scale"""
    rank = len(shape_of(op.input))
    axes = range(op.axis % rank, rank)
    centred = sub(op.input, _mean(op.input, axes))
    inverse = unary(RsqrtOp, add(_mean(square(centred), axes), op.epsilon))
    normal = mul(centred, inverse)

    def of_input() -> ir.Value:
        scaled = gradient if op.scale is None else mul(gradient, op.scale)
        projection = mul(normal, _mean(mul(scaled, normal), axes))
        return mul(sub(sub(scaled, _mean(scaled, axes)), projection), inverse)

    return of_input, lambda: mul(gradient, normal), lambda: gradient


@DERIVATIVE.attach(ops.RmsNormOp)
def rms_norm(op: ops.RmsNormOp, gradient: ir.Value) -> Gradients:
    """r * (h - n * mean(h * n)), g * n with n = x * r, r = 1 / sqrt(mean(x * x) + epsilon), h = g * scale"""
    rank = len(shape_of(op.input))
    axes = range(op.axis % rank, rank)
    inverse = unary(RsqrtOp, add(_mean(square(op.input), axes), op.epsilon))
    normal = mul(op.input, inverse)

    def of_input() -> ir.Value:
        scaled = gradient if op.scale is None else mul(gradient, op.scale)
        return mul(sub(scaled, mul(normal, _mean(mul(scaled, normal), axes))), inverse)

    return of_input, lambda: mul(gradient, normal)


@DERIVATIVE.attach(ops.BatchNormOp)
def batch_norm(op: ops.BatchNormOp, gradient: ir.Value) -> Gradients:
    """g * scale * r, sum(g * n), sum(g), -sum(g) * scale * r, -sum(g * n) * scale * r * r / 2 with r = 1 / deviation"""
    rank = len(shape_of(op.input))
    channel = 1 if op.layout == CHANNELS_FIRST else rank - 1
    others = [axis for axis in range(rank) if axis != channel]
    (channels,) = shape_of(op.scale)

    def along(value: ir.Value) -> ir.Value:
        return reshape(value, [channels if axis == channel else 1 for axis in range(rank)])

    def over(value: ir.Value) -> ir.Value:
        return total(value, others, keepdims=False)

    inverse = unary(RsqrtOp, add(op.variance, op.epsilon))
    normal = mul(sub(op.input, along(op.mean)), along(inverse))
    factor = mul(op.scale, inverse)
    return (
        lambda: mul(gradient, along(factor)),
        lambda: over(mul(gradient, normal)),
        lambda: over(gradient),
        lambda: neg(mul(over(gradient), factor)),
        lambda: mul(over(mul(gradient, normal)), factor, inverse, -0.5),
    )


@DERIVATIVE.attach(ops.LocalResponseNormOp)
def local_response_norm(op: ops.LocalResponseNormOp, gradient: ir.Value) -> Gradients:
    """g / u ** beta - 2 * alpha * beta / size * x * S(g * x / u ** (beta + 1))

    u is `bias + alpha / size * sum(x * x)`, and S sums over the channels whose windows contain an element.
    """
    channel = 1 if op.layout == CHANNELS_FIRST else len(shape_of(op.input)) - 1
    before, behind = (op.size - 1) // 2, op.size // 2

    def window(value: ir.Value, low: int, high: int) -> ir.Value:
        moved = to_front(value, channel)
        shape = shape_of(moved)
        rows = reshape(moved, (1, 1, shape[0], count(shape[1:])))
        summed = SumPoolOp(rows, kernel=(op.size, 1), strides=(1, 1), pads=(low, 0, high, 0), dilations=(1, 1)).result
        return from_front(reshape(summed, shape), channel)

    def power(value: ir.Value, exponent: float) -> ir.Value:
        return PowOp(value, scalar_like(exponent, value)).result

    def build() -> ir.Value:
        base = add(mul(window(square(op.input), before, behind), op.alpha / op.size), op.bias)
        shared = window(mul(gradient, op.input, power(base, -op.beta - 1)), behind, before)
        indirect = mul(op.input, shared, 2 * op.alpha * op.beta / op.size)
        return sub(mul(gradient, power(base, -op.beta)), indirect)

    return (build,)
