"""exp, expm1 and tanh: x = n * log(2) + r, a polynomial in r, and a power of two.

The polynomials are minimax approximations for |r| <= log(2) / 2 by Remez' algorithm. The f32 coefficients were then
changed by single bits to minimise the error of all results, including rounding.
"""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith, math

from .arithmetic import Arithmetic

_LOG2_E = 1 / python_math.log(2)
# log(2) in two parts; the first has so few bits that its product with a small integer is exact.
_LN2 = {False: (0.693359375, -2.12194440e-4), True: (6.93145751953125e-1, 1.42860682030941723212e-6)}
# exp(r) = 1 + r + r * r * p(r), the highest power first.
_EXP_F32 = (0.0013814540579915047, 0.00836874544620514, 0.04166838899254799, 0.1666651964187622, 0.4999999403953552)
_EXP_F64 = (
    2.5000047089410952e-08,
    2.76302628841946e-07,
    2.755758649408025e-06,
    2.4801493061518384e-05,
    0.00019841269506362137,
    0.0013888888943662595,
    0.008333333333494598,
    0.04166666666653005,
    0.16666666666666413,
    0.5000000000000011,
)
# exp(r), one degree lower, within 2.1 ulp.
_SHORT_F32 = (
    0.008290272206068039,
    0.04189816117286682,
    0.16667640209197998,
    0.4999915063381195,
    0.9999997019767761,
    1.0,
)


def _rest(on: Arithmetic, x: ir.Value, whole: ir.Value, divisor: float = 1) -> ir.Value:
    """r / divisor of `x = whole * log(2) / divisor + r / divisor`."""
    high, low = (part / divisor for part in _LN2[on.is_double])
    return on.fma(whole, on.number(-low), on.fma(whole, on.number(-high), x))


def _tail(on: Arithmetic) -> tuple[float, ...]:
    return _EXP_F64 if on.is_double else _EXP_F32


def exp(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The exponential within 1 ulp, including denormal results; overflows to infinity."""
    x = on.clamp(x, -746.0, 710.0) if on.is_double else on.clamp(x, -104.0, 89.0)
    whole, count = on.nearest(x, _LOG2_E, 2 * on.bias)
    return _scaled(on, x, on.polynomial(_rest(on, x, whole), (*_tail(on), 1.0, 1.0)), whole, count)


def exp_of_sum(on: Arithmetic, x: ir.Value, low: ir.Value) -> ir.Value:
    """The exponential of `x + low` in f64, with a `low` of some ulp of x, within 0.6 ulp of normal results."""
    x = on.clamp(x, -746.0, 710.0)
    whole, count = on.nearest(x, _LOG2_E, 2 * on.bias)
    high_part, low_part = (on.number(-part) for part in _LN2[True])
    above = on.fma(whole, high_part, x)  # exact
    rest = on.fma(whole, low_part, above)
    low = arith.addf(low, on.fma(whole, low_part, arith.subf(above, rest)))
    # exp(r) = 1 + r + small, its first sum in two parts, so that only the last one rounds to 53 bits.
    total = arith.addf(on.number(1), rest)
    small = arith.mulf(arith.mulf(rest, rest), on.polynomial(rest, _EXP_F64))
    small = on.fma(low, arith.addf(total, small), small)
    small = arith.addf(small, arith.subf(rest, arith.subf(total, on.number(1))))
    return _scaled(on, x, arith.addf(total, small), whole, count)


def _scaled(on: Arithmetic, x: ir.Value, fraction: ir.Value, whole: ir.Value, count: ir.Value) -> ir.Value:
    """`fraction * 2 ** whole`, the exponential of x; also if it is denormal or infinite."""
    if on.can_scale:
        return on.scaled(fraction, whole)
    # 2 ** n may be denormal, so it is split into two normal factors; the exponent of one is about half the range.
    half = 600.0 if on.is_double else 64.0
    last = arith.select(on.less(x, on.number(0)), on.number(2.0**-half), on.number(2.0**half))
    first = on.floats(arith.subi(on.shifted(count), on.bits(last)))
    return arith.mulf(arith.mulf(fraction, first), last)


def exp_of_normal(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The exponential within 2.1 ulp, except that denormal results are 0 and those of the last binade may be infinite.

    Denormal results would be costly: multiplying by them, as attention does, takes a hundred times as long.
    """
    terms = (*_EXP_F64, 1.0, 1.0) if on.is_double else _SHORT_F32
    least, most = (-708.39, 710.0) if on.is_double else (-87.33, 89.0)
    if on.can_scale:
        # Results far below the bound, including those of minus infinity, are arbitrary; the select replaces them by 0.
        bounded = on.at_most(x, most)
        whole, _ = on.nearest(bounded, _LOG2_E)
        value = on.scaled(on.polynomial(_rest(on, bounded, whole), terms), whole)
    else:
        x = on.at_most(x, most)
        whole, count = on.nearest(x, _LOG2_E, on.bias)
        value = arith.mulf(on.polynomial(_rest(on, x, whole), terms), on.power_of_two(count))
    return arith.select(on.less(x, on.number(least)), on.number(0), value)


def exp_of_few(on: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Two factors of the exponential in f32, the second a power of two; within 2.1 ulp for abs(x) < 20."""
    whole, count = on.nearest(x, _LOG2_E, on.bias)
    rest = on.fma(whole, on.number(-python_math.log(2)), x)
    return on.polynomial(rest, _SHORT_F32), on.power_of_two(count)


def expm1(on: Arithmetic, x: ir.Value) -> ir.Value:
    """exp(x) - 1 within 3 ulp."""
    # Below the lower bound the result rounds to -1; above the upper one it is infinite.
    bounded = on.clamp(x, -40.0, 710.0) if on.is_double else on.clamp(x, -20.0, 89.0)
    # 2 ** (n - 1) is a normal number for every n here.
    whole, count = on.nearest(bounded, _LOG2_E, on.bias - 1)
    rest, half = _rest(on, bounded, whole), on.power_of_two(count)
    fraction = on.fma(arith.mulf(rest, rest), on.polynomial(rest, _tail(on)), rest)
    value = on.fma(half, fraction, arith.subf(half, on.number(0.5)))
    # Restores the sign of 0.
    return math.copysign(arith.addf(value, value), x)


def tanh(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The hyperbolic tangent within 3 ulp, as t / (t + 2) with t = expm1(2 * abs(x)); 1 beyond the bound."""
    size = on.at_most(math.absf(x), 20.0 if on.is_double else 10.0)
    whole, count = on.nearest(size, 2 * _LOG2_E, on.bias + 1)
    # r / 2, and expm1(r) / 2 as a polynomial in r / 2.
    rest, twice = _rest(on, size, whole, 2), on.power_of_two(count)
    terms = [term * 2.0 ** (len(_tail(on)) - place) for place, term in enumerate(_tail(on))]
    fraction = on.fma(arith.mulf(rest, rest), on.polynomial(rest, terms), rest)
    grown = on.fma(twice, fraction, on.fma(twice, on.number(0.5), on.number(-1)))
    return math.copysign(arith.divf(grown, arith.addf(grown, on.number(2))), x)
