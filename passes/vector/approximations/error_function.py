"""The error function.

Sources: N. Juffa's single precision erf (error below 1 ulp); Numerical Recipes (Press et al., 3rd edition), 6.2.2.
"""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith, math

from .arithmetic import Arithmetic
from .exponential import exp, exp_of_few

# 2 / sqrt(pi) * (-1) ** n / (n! * (2 * n + 1)), the highest power first.
_ERF_F64 = tuple(
    2 / python_math.sqrt(python_math.pi) * (-1) ** n / (python_math.factorial(n) * (2 * n + 1))
    for n in range(20, -1, -1)
)
_ERFC_F64 = (
    -1.3026537197817094,
    6.4196979235649026e-1,
    1.9476473204185836e-2,
    -9.561514786808631e-3,
    -9.46595344482036e-4,
    3.66839497852761e-4,
    4.2523324806907e-5,
    -2.0278578112534e-5,
    -1.624290004647e-6,
    1.303655835580e-6,
    1.5626441722e-8,
    -8.5238095915e-8,
    6.529054439e-9,
    5.059343495e-9,
    -9.91364156e-10,
    -2.27365122e-10,
    9.6467911e-11,
    2.394038e-12,
    -6.886027e-12,
    8.94487e-13,
    3.13092e-13,
    -1.12708e-13,
    3.81e-16,
    7.106e-15,
    -1.523e-15,
    -9.4e-17,
    1.21e-16,
    -2.8e-17,
)


# erf(x) = x * p(x * x) / q(x * x), the highest power first.
_NUMERATOR = (
    2.045690735030803e-06,
    0.0002842409012373537,
    0.0037563054356724024,
    0.05271923542022705,
    0.19024619460105896,
    1.128379225730896,
)
_DENOMINATOR = (
    3.801257480517961e-05,
    0.0011594578390941024,
    0.014951194636523724,
    0.11403518170118332,
    0.5019342303276062,
    1.0,
)


def erf(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The error function: within 2 ulp in f32, and within 4 ulp in f64."""
    return _erf_f64(on, x) if on.is_double else _erf_f32(on, x)


def erf_as_ratio(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The error function of f32 within 6 ulp: two short polynomials and a division."""
    if on.is_double:
        return _erf_f64(on, x)
    x = on.clamp(x, -3.925, 3.925)
    square = arith.mulf(x, x)
    return arith.divf(arith.mulf(x, on.polynomial(square, _NUMERATOR)), on.polynomial(square, _DENOMINATOR))


def _erf_f32(on: Arithmetic, x: ir.Value) -> ir.Value:
    size = on.at_most(math.absf(x), 4.0)
    square = arith.mulf(size, size)
    # Far from 0: 1 - exp(p(x)).
    low = on.fma(on.number(-1.72853470e-5), size, on.number(3.83197126e-4))
    high = on.fma(on.number(-3.88396438e-3), size, on.number(2.42546219e-2))
    far = on.fma(low, square, high)
    for coefficient in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        far = on.fma(far, size, on.number(coefficient))
    fraction, power = exp_of_few(on, on.fma(far, size, arith.negf(size)))
    far = math.copysign(on.fma(arith.negf(fraction), power, on.number(1)), x)
    # Near 0: x + x * p(x * x).
    near = on.polynomial(
        square, (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
    )
    return arith.select(on.less(on.number(0.927734375), size), far, on.fma(near, x, x))


def _erf_f64(on: Arithmetic, x: ir.Value) -> ir.Value:
    size = on.clamp(math.absf(x), 0.0, 6.0)
    square = arith.mulf(size, size)
    # Near 0: the Taylor series in x * x. Far from 0: 1 - erfc(x), a Chebyshev series in the exponent.
    near = arith.mulf(on.polynomial(square, _ERF_F64), x)
    far = math.copysign(arith.subf(on.number(1), _erfc_f64(on, size, square)), x)
    return arith.select(on.less(on.number(1), size), far, near)


def _erfc_f64(on: Arithmetic, size: ir.Value, square: ir.Value) -> ir.Value:
    t = arith.divf(on.number(2), arith.addf(size, on.number(2)))
    y = on.fma(on.number(4), t, on.number(-2))
    before, last = on.number(0), on.number(0)
    for coefficient in reversed(_ERFC_F64[1:]):
        before, last = arith.addf(on.fma(y, before, on.number(coefficient)), arith.negf(last)), before
    series = arith.subf(arith.mulf(on.number(0.5), on.fma(y, before, on.number(_ERFC_F64[0]))), last)
    return arith.mulf(t, exp(on, arith.subf(series, square)))
