"""Derivatives of arithmetic, comparisons and choices, element by element."""

from __future__ import annotations

import math

from mlir import ir

from ....dialects.stepwell import elementwise as ops
from ...graph.values import dtype_of
from ..build import both, cast, compare, div, mul, neg, select, square, sub, unary
from ..derivative import DERIVATIVE, Gradients, constant

# Piecewise constant ops; results that are not floats have no gradients.
DERIVATIVE.attach(ops.FloorOp, ops.CeilOp, ops.RoundOp, ops.SignOp)(constant(1))


@DERIVATIVE.attach(ops.AbsOp)
def absolute(op: ops.AbsOp, gradient: ir.Value) -> Gradients:
    """g * sign(x), which is 0 at 0"""
    return (lambda: mul(gradient, unary(ops.SignOp, op.input)),)


@DERIVATIVE.attach(ops.NegOp)
def negative(op: ops.NegOp, gradient: ir.Value) -> Gradients:
    """-g"""
    return (lambda: neg(gradient),)


@DERIVATIVE.attach(ops.ExpOp)
def exponential(op: ops.ExpOp, gradient: ir.Value) -> Gradients:
    """g * exp(x)"""
    return (lambda: mul(gradient, op.result),)


@DERIVATIVE.attach(ops.LogOp)
def logarithm(op: ops.LogOp, gradient: ir.Value) -> Gradients:
    """g / x"""
    return (lambda: div(gradient, op.input),)


@DERIVATIVE.attach(ops.SqrtOp)
def square_root(op: ops.SqrtOp, gradient: ir.Value) -> Gradients:
    """g / (2 * sqrt(x))"""
    return (lambda: div(mul(gradient, 0.5), op.result),)


@DERIVATIVE.attach(ops.RsqrtOp)
def reciprocal_square_root(op: ops.RsqrtOp, gradient: ir.Value) -> Gradients:
    """g * -1/2 * y ** 3"""
    return (lambda: mul(gradient, -0.5, op.result, op.result, op.result),)


@DERIVATIVE.attach(ops.ReciprocalOp)
def reciprocal(op: ops.ReciprocalOp, gradient: ir.Value) -> Gradients:
    """-g * y ** 2"""
    return (lambda: neg(mul(gradient, op.result, op.result)),)


@DERIVATIVE.attach(ops.ErfOp)
def error_function(op: ops.ErfOp, gradient: ir.Value) -> Gradients:
    """g * 2 / sqrt(pi) * exp(-x * x)"""
    return (lambda: mul(gradient, 2 / math.sqrt(math.pi), unary(ops.ExpOp, neg(square(op.input)))),)


@DERIVATIVE.attach(ops.AddOp)
def sum_of_two(op: ops.AddOp, gradient: ir.Value) -> Gradients:
    """g, g"""
    return (lambda: gradient, lambda: gradient)


@DERIVATIVE.attach(ops.SubOp)
def difference(op: ops.SubOp, gradient: ir.Value) -> Gradients:
    """g, -g"""
    return (lambda: gradient, lambda: neg(gradient))


@DERIVATIVE.attach(ops.MulOp)
def product(op: ops.MulOp, gradient: ir.Value) -> Gradients:
    """g * b, g * a"""
    return (lambda: mul(gradient, op.rhs), lambda: mul(gradient, op.lhs))


@DERIVATIVE.attach(ops.DivOp)
def quotient(op: ops.DivOp, gradient: ir.Value) -> Gradients:
    """g / b, -g * y / b"""
    return (lambda: div(gradient, op.rhs), lambda: neg(div(mul(gradient, op.result), op.rhs)))


@DERIVATIVE.attach(ops.PowOp)
def power(op: ops.PowOp, gradient: ir.Value) -> Gradients:
    """g * b * a ** (b - 1), g * y * log(a); the latter is 0 for a = 0, as the power is"""

    def base() -> ir.Value:
        slope = mul(op.rhs, ops.PowOp(op.lhs, sub(op.rhs, 1)).result)
        return mul(gradient, select(compare(ops.EqualOp, op.rhs, 0), 0, slope))

    def exponent() -> ir.Value:
        slope = mul(op.result, unary(ops.LogOp, op.lhs))
        is_flat = both(compare(ops.EqualOp, op.lhs, 0), compare(ops.GreaterEqualOp, op.rhs, 0))
        return mul(gradient, select(is_flat, 0, slope))

    return base, exponent


@DERIVATIVE.attach(ops.ModOp)
def remainder(op: ops.ModOp, gradient: ir.Value) -> Gradients:
    """g, -g * trunc(a / b), as a - trunc(a / b) * b is the remainder"""
    return (lambda: gradient, lambda: neg(mul(gradient, div(sub(op.lhs, op.result), op.rhs))))


@DERIVATIVE.attach(ops.MaximumOp, ops.MinimumOp)
def extreme(op: ops.BinaryOp, gradient: ir.Value) -> Gradients:
    """g to the operand that is the result, half of it to each of two equal ones, as in PyTorch"""
    kind = ops.GreaterOp if isinstance(op, ops.MaximumOp) else ops.LessOp

    def share(own: ir.Value, other: ir.Value) -> ir.Value:
        tie = select(compare(ops.EqualOp, own, other), mul(gradient, 0.5), 0)
        return select(compare(kind, own, other), gradient, tie)

    return (lambda: share(op.lhs, op.rhs), lambda: share(op.rhs, op.lhs))


@DERIVATIVE.attach(ops.SelectOp)
def choice(op: ops.SelectOp, gradient: ir.Value) -> Gradients:
    """None, select(condition, g, 0), select(condition, 0, g)"""
    return (None, lambda: select(op.condition, gradient, 0), lambda: select(op.condition, 0, gradient))


@DERIVATIVE.attach(ops.MaskOp)
def mask(op: ops.MaskOp, gradient: ir.Value) -> Gradients:
    """g where the mask is not 0, None"""
    return (lambda: ops.MaskOp(gradient, op.mask).result, None)


@DERIVATIVE.attach(ops.CastOp)
def conversion(op: ops.CastOp, gradient: ir.Value) -> Gradients:
    """cast(g)"""
    return (lambda: cast(gradient, dtype_of(op.input)),)
