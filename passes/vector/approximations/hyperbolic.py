"""sinh, cosh, and the inverse hyperbolic functions, computed by exponentials and logarithms."""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith, math

from .arithmetic import Arithmetic
from .exponential import exp, expm1
from .logarithm import log, log1p

_LN2 = python_math.log(2)


def sinh(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The hyperbolic sine within 3 ulp: (t + t / (t + 1)) / 2 with t = expm1(abs(x))."""
    size = math.absf(x)
    grown = expm1(on, size)
    near = arith.mulf(on.number(0.5), arith.addf(grown, arith.divf(grown, arith.addf(grown, on.number(1)))))
    return math.copysign(_unless_large(on, size, near), x)


def cosh(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The hyperbolic cosine within 3 ulp: (exp(x) + 1 / exp(x)) / 2."""
    size = math.absf(x)
    grown = exp(on, size)
    half = on.number(0.5)
    near = on.fma(half, grown, arith.divf(half, grown))
    return _unless_large(on, size, near)


def _unless_large(on: Arithmetic, size: ir.Value, near: ir.Value) -> ir.Value:
    """`near`, or exp(size / 2) ** 2 / 2 if the exponential of `size` might overflow before its half does."""
    half = on.number(0.5)
    root = exp(on, arith.mulf(size, half))
    is_large = on.less(on.number(700.0 if on.is_double else 80.0), size)
    return arith.select(is_large, arith.mulf(arith.mulf(half, root), root), near)


def asinh(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The inverse hyperbolic sine of an f64 within 3 ulp: log1p(x + x**2 / (1 + sqrt(1 + x**2)))."""
    size = math.absf(x)
    square = arith.mulf(size, size)
    root = math.sqrt(arith.addf(square, on.number(1)))
    near = log1p(on, arith.addf(size, arith.divf(square, arith.addf(root, on.number(1)))))
    return math.copysign(_unless_huge(on, size, near), x)


def acosh(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The inverse hyperbolic cosine of an f64 within 3 ulp: log1p(t + sqrt(t * (t + 2))) with t = x - 1."""
    above = arith.subf(x, on.number(1))
    root = math.sqrt(arith.mulf(above, arith.addf(above, on.number(2))))
    value = _unless_huge(on, x, log1p(on, arith.addf(above, root)))
    return arith.select(on.less(x, on.number(1)), on.number(python_math.nan), value)


def _unless_huge(on: Arithmetic, size: ir.Value, near: ir.Value) -> ir.Value:
    """`near`, or log(2 * size) if the number is so large that adding 1 to its square has no effect."""
    far = arith.addf(log(on, size), on.number(_LN2))
    return arith.select(on.less(on.number(2.0**30), size), far, near)


def atanh(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The inverse hyperbolic tangent of an f64 within 3 ulp: log1p(2 x / (1 - x)) / 2."""
    size = math.absf(x)
    ratio = arith.divf(arith.addf(size, size), arith.subf(on.number(1), size))
    return math.copysign(arith.mulf(on.number(0.5), log1p(on, ratio)), x)
