"""Derivatives of trigonometric, hyperbolic and activation functions."""

from __future__ import annotations

import math

from mlir import ir

from ....dialects.stepwell import elementwise as ops
from ..build import add, both, compare, div, exp, mul, neg, select, square, sub, unary
from ..derivative import DERIVATIVE, Gradients


@DERIVATIVE.attach(ops.SinOp)
def sine(op: ops.SinOp, gradient: ir.Value) -> Gradients:
    """g * cos(x)"""
    return (lambda: mul(gradient, unary(ops.CosOp, op.input)),)


@DERIVATIVE.attach(ops.CosOp)
def cosine(op: ops.CosOp, gradient: ir.Value) -> Gradients:
    """-g * sin(x)"""
    return (lambda: neg(mul(gradient, unary(ops.SinOp, op.input))),)


@DERIVATIVE.attach(ops.TanOp)
def tangent(op: ops.TanOp, gradient: ir.Value) -> Gradients:
    """g * (1 + y ** 2)"""
    return (lambda: mul(gradient, add(square(op.result), 1)),)


@DERIVATIVE.attach(ops.AsinOp)
def arc_sine(op: ops.AsinOp, gradient: ir.Value) -> Gradients:
    """g / sqrt(1 - x ** 2)"""
    return (lambda: mul(gradient, unary(ops.RsqrtOp, sub(1, square(op.input)))),)


@DERIVATIVE.attach(ops.AcosOp)
def arc_cosine(op: ops.AcosOp, gradient: ir.Value) -> Gradients:
    """-g / sqrt(1 - x ** 2)"""
    return (lambda: neg(mul(gradient, unary(ops.RsqrtOp, sub(1, square(op.input))))),)


@DERIVATIVE.attach(ops.AtanOp)
def arc_tangent(op: ops.AtanOp, gradient: ir.Value) -> Gradients:
    """g / (1 + x ** 2)"""
    return (lambda: div(gradient, add(square(op.input), 1)),)


@DERIVATIVE.attach(ops.SinhOp)
def hyperbolic_sine(op: ops.SinhOp, gradient: ir.Value) -> Gradients:
    """g * cosh(x)"""
    return (lambda: mul(gradient, unary(ops.CoshOp, op.input)),)


@DERIVATIVE.attach(ops.CoshOp)
def hyperbolic_cosine(op: ops.CoshOp, gradient: ir.Value) -> Gradients:
    """g * sinh(x)"""
    return (lambda: mul(gradient, unary(ops.SinhOp, op.input)),)


@DERIVATIVE.attach(ops.TanhOp)
def hyperbolic_tangent(op: ops.TanhOp, gradient: ir.Value) -> Gradients:
    """g * (1 - y ** 2)"""
    return (lambda: mul(gradient, sub(1, square(op.result))),)


@DERIVATIVE.attach(ops.AsinhOp)
def inverse_hyperbolic_sine(op: ops.AsinhOp, gradient: ir.Value) -> Gradients:
    """g / sqrt(x ** 2 + 1)"""
    return (lambda: mul(gradient, unary(ops.RsqrtOp, add(square(op.input), 1))),)


@DERIVATIVE.attach(ops.AcoshOp)
def inverse_hyperbolic_cosine(op: ops.AcoshOp, gradient: ir.Value) -> Gradients:
    """g / sqrt(x ** 2 - 1)"""
    return (lambda: mul(gradient, unary(ops.RsqrtOp, sub(square(op.input), 1))),)


@DERIVATIVE.attach(ops.AtanhOp)
def inverse_hyperbolic_tangent(op: ops.AtanhOp, gradient: ir.Value) -> Gradients:
    """g / (1 - x ** 2)"""
    return (lambda: div(gradient, sub(1, square(op.input))),)


@DERIVATIVE.attach(ops.ReluOp)
def relu(op: ops.ReluOp, gradient: ir.Value) -> Gradients:
    """select(y > 0, g, 0)"""
    return (lambda: select(compare(ops.GreaterOp, op.result, 0), gradient, 0),)


@DERIVATIVE.attach(ops.SigmoidOp)
def sigmoid(op: ops.SigmoidOp, gradient: ir.Value) -> Gradients:
    """g * y * (1 - y)"""
    return (lambda: mul(gradient, op.result, sub(1, op.result)),)


@DERIVATIVE.attach(ops.SiluOp)
def silu(op: ops.SiluOp, gradient: ir.Value) -> Gradients:
    """g * s * (1 + x * (1 - s)) with s = sigmoid(x)"""

    def build() -> ir.Value:
        gate = unary(ops.SigmoidOp, op.input)
        return mul(gradient, gate, add(mul(op.input, sub(1, gate)), 1))

    return (build,)


@DERIVATIVE.attach(ops.SoftplusOp)
def softplus(op: ops.SoftplusOp, gradient: ir.Value) -> Gradients:
    """g * sigmoid(x)"""
    return (lambda: mul(gradient, unary(ops.SigmoidOp, op.input)),)


@DERIVATIVE.attach(ops.GeluOp)
def gelu(op: ops.GeluOp, gradient: ir.Value) -> Gradients:
    """g * (P(X <= x) + x * p(x)) for a standard normal X; of the approximation if the op is one"""
    return (lambda: mul(gradient, (_tanh_gelu_slope if op.approximate == "tanh" else _gelu_slope)(op.input)),)


def _gelu_slope(x: ir.Value) -> ir.Value:
    below = mul(add(unary(ops.ErfOp, mul(x, math.sqrt(0.5))), 1), 0.5)
    density = mul(exp(mul(square(x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return add(below, mul(x, density))


def _tanh_gelu_slope(x: ir.Value) -> ir.Value:
    scale = math.sqrt(2 / math.pi)
    inner = mul(mul(x, scale), add(mul(square(x), 0.044715), 1))
    saturated = unary(ops.TanhOp, inner)
    slope = mul(add(mul(square(x), 3 * 0.044715), 1), scale)
    return mul(add(add(saturated, 1), mul(x, sub(1, square(saturated)), slope)), 0.5)


@DERIVATIVE.attach(ops.HardSwishOp)
def hard_swish(op: ops.HardSwishOp, gradient: ir.Value) -> Gradients:
    """0 up to -3, g from 3 on, else g * (x / 3 + 1 / 2)"""

    def build() -> ir.Value:
        middle = mul(gradient, add(mul(op.input, 1 / 3), 0.5))
        lower = select(compare(ops.LessEqualOp, op.input, -3), 0, middle)
        return select(compare(ops.GreaterEqualOp, op.input, 3), gradient, lower)

    return (build,)


@DERIVATIVE.attach(ops.HardSigmoidOp)
def hard_sigmoid(op: ops.HardSigmoidOp, gradient: ir.Value) -> Gradients:
    """g * alpha where 0 < y < 1, else 0"""

    def build() -> ir.Value:
        inside = both(compare(ops.GreaterOp, op.result, 0), compare(ops.LessOp, op.result, 1))
        return select(inside, mul(gradient, op.alpha), 0)

    return (build,)


@DERIVATIVE.attach(ops.LeakyReluOp)
def leaky_relu(op: ops.LeakyReluOp, gradient: ir.Value) -> Gradients:
    """g where x > 0, else alpha * g"""
    return (lambda: select(compare(ops.GreaterOp, op.input, 0), gradient, mul(gradient, op.alpha)),)


@DERIVATIVE.attach(ops.EluOp)
def elu(op: ops.EluOp, gradient: ir.Value) -> Gradients:
    """g where x > 0, else g * (y + alpha)"""
    return (lambda: select(compare(ops.GreaterOp, op.input, 0), gradient, mul(gradient, add(op.result, op.alpha))),)


@DERIVATIVE.attach(ops.ClipOp)
def clip(op: ops.ClipOp, gradient: ir.Value) -> Gradients:
    """g where minimum <= x <= maximum, else 0"""

    def build() -> ir.Value:
        found = gradient
        if op.minimum > -math.inf:
            found = select(compare(ops.GreaterEqualOp, op.input, op.minimum), found, 0)
        if op.maximum < math.inf:
            found = select(compare(ops.LessEqualOp, op.input, op.maximum), found, 0)
        return found

    return (build,)
