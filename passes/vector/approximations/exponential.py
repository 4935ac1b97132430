"""exp, expm1, tanh and erf.

Sources: S. Moshier, Cephes Mathematical Library (exp); N. Juffa's single precision erf (error below 1 ulp).
"""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith, math

from .arithmetic import Arithmetic

_LOG2_E = 1 / python_math.log(2)
# log(2) in two parts, the first with so few bits that its product with a small integer is exact.
_LN2 = {False: (0.693359375, -2.12194440e-4), True: (6.93145751953125e-1, 1.42860682030941723212e-6)}
# expm1(r) = r + r * r * p(r) for |r| <= log(2) / 2.
_EXPM1_F32 = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_EXPM1_F64 = tuple(1 / python_math.factorial(power) for power in range(14, 1, -1))

# 2 / sqrt(pi) * (-1) ** n / (n! * (2 * n + 1)), the highest power first.
_ERF_F64 = tuple(
    2 / python_math.sqrt(python_math.pi) * (-1) ** n / (python_math.factorial(n) * (2 * n + 1))
    for n in range(20, -1, -1)
)
# Numerical Recipes (Press et al., 3rd edition), 6.2.2.
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


def _reduced(on: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """`expm1(r)` and the integer n of `x = n * log(2) + r`."""
    whole, count = on.nearest(arith.mulf(x, on.number(_LOG2_E)))
    high, low = _LN2[on.is_double]
    rest = on.fma(whole, on.number(-low), on.fma(whole, on.number(-high), x))
    tail = on.polynomial(rest, _EXPM1_F64 if on.is_double else _EXPM1_F32)
    return on.fma(arith.mulf(rest, rest), tail, rest), count


def exp(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The exponential within 2 ulp, also where it is denormal; overflows to infinity."""
    x = on.clamp(x, -746.0, 710.0) if on.is_double else on.clamp(x, -104.0, 89.0)
    fraction, count = _reduced(on, x)
    # Two factors, as 2 ** n need not be a normal number.
    first = arith.shrsi(count, on.integer(1))
    second = arith.subi(count, first)
    value = arith.mulf(arith.addf(fraction, on.number(1)), on.power_of_two(first))
    return arith.mulf(value, on.power_of_two(second))


def exp_of_normal(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The exponential within 2 ulp, but 0 where it is denormal: one product and two bounds less than `exp`."""
    least, most = (-708.39, 709.78) if on.is_double else (-87.33, 88.72)
    fraction, count = _reduced(on, x)
    exponent = arith.shli(count, on.integer(on.mantissa_bits))
    value = on.floats(arith.addi(on.bits(arith.addf(fraction, on.number(1))), exponent))
    value = arith.select(on.less(x, on.number(least)), on.number(0), value)
    # Above the bound infinity, and of NaN itself.
    above = arith.addf(x, on.number(python_math.inf))
    return arith.select(on.less(x, on.number(most)), value, above)


def expm1(on: Arithmetic, x: ir.Value) -> ir.Value:
    """exp(x) - 1 within 3 ulp."""
    # Below the bound the result is -1 in the type's precision; at the other it is infinite.
    x = on.clamp(x, -40.0, 710.0) if on.is_double else on.clamp(x, -20.0, 89.0)
    fraction, count = _reduced(on, x)
    # Half of 2 ** n is a normal number for every n here.
    half = on.power_of_two(arith.subi(count, on.integer(1)))
    value = on.fma(half, fraction, arith.subf(half, on.number(0.5)))
    return arith.addf(value, value)


def tanh(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The hyperbolic tangent within 4 ulp, as t / (t + 2) with t = expm1(2 * abs(x)); beyond the bound it is 1."""
    size = on.clamp(math.absf(x), 0.0, 20.0 if on.is_double else 10.0)
    grown = expm1(on, arith.addf(size, size))
    return math.copysign(arith.divf(grown, arith.addf(grown, on.number(2))), x)


def erf(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The error function: within 2 ulp in f32, and within 4 ulp in f64."""
    return _erf_f64(on, x) if on.is_double else _erf_f32(on, x)


def _erf_f32(on: Arithmetic, x: ir.Value) -> ir.Value:
    size = on.clamp(math.absf(x), 0.0, 10.0)
    square = arith.mulf(size, size)
    # Far from 0: 1 - exp(p(x)).
    low = on.fma(on.number(-1.72853470e-5), size, on.number(3.83197126e-4))
    high = on.fma(on.number(-3.88396438e-3), size, on.number(2.42546219e-2))
    far = on.fma(low, square, high)
    for coefficient in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        far = on.fma(far, size, on.number(coefficient))
    far = on.fma(far, size, arith.negf(size))
    far = math.copysign(arith.subf(on.number(1), exp(on, far)), x)
    # Near 0: x + x * p(x * x).
    near = on.polynomial(
        square, (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
    )
    return arith.select(on.less(on.number(0.927734375), size), far, on.fma(near, x, x))


def _erf_f64(on: Arithmetic, x: ir.Value) -> ir.Value:
    size = on.clamp(math.absf(x), 0.0, 6.0)
    square = arith.mulf(size, size)
    # Near 0 the Taylor series in x * x; far from it 1 - erfc(x), a Chebyshev series in the exponent.
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
