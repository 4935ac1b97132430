"""log, log1p and pow.

Source: S. Moshier, Cephes Mathematical Library.
"""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith, math

from .arithmetic import Arithmetic
from .exponential import exp, exp_of_sum

# p of log(1 + x) = x - x**2 / 2 + x**3 * p(x), the highest power first: logf.c, and the quotient of log.c.
_F32 = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_F64_NUMERATOR = (
    1.01875663804580931796e-4,
    4.97494994976747001425e-1,
    4.70579119878881725854e0,
    1.44989225341610930846e1,
    1.79368678507819816313e1,
    7.70838733755885391666e0,
)
_F64_DENOMINATOR = (
    1.0,
    1.12873587189167450590e1,
    4.52279145837532221105e1,
    8.29875266912776603211e1,
    7.11544750618563894466e1,
    2.31251620126765340583e1,
)
# 2 / 3 minus the float next to it.
_TWO_THIRDS_REST = 2 / 3 * 2.0**-54


def log(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The natural logarithm within 2 ulp; -inf at 0, NaN below."""
    exponent, fraction = _split(on, x)
    square = arith.mulf(fraction, fraction)
    if on.is_double:
        ratio = arith.divf(on.polynomial(fraction, _F64_NUMERATOR), on.polynomial(fraction, _F64_DENOMINATOR))
    else:
        ratio = on.polynomial(fraction, _F32)
    # x - x**2 / 2 + x**3 * p(x), the small terms first; log(2) in two parts.
    low, high = -2.121944400546905827679e-4, 0.693359375
    value = on.fma(exponent, on.number(low), arith.mulf(arith.mulf(fraction, square), ratio))
    value = arith.addf(on.fma(square, on.number(-0.5), value), fraction)
    value = on.fma(exponent, on.number(high), value)
    return _at_the_edges(on, x, value)


def _log_in_two(on: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The logarithm of an f64 as a sum of two numbers, the second small: 64 correct bits. -inf at 0, NaN below."""
    exponent, fraction = _split(on, x)
    # log(1 + f) = 2 s + 2 s**3 / 3 + ..., with s = f / (2 + f) in two parts.
    total = arith.addf(fraction, on.number(2))
    lost = arith.subf(fraction, arith.subf(total, on.number(2)))
    ratio = arith.divf(fraction, total)
    rest = on.fma(arith.negf(ratio), lost, on.fma(arith.negf(ratio), total, fraction))
    low = arith.divf(arith.addf(rest, rest), total)
    square, square_rest = on.product(ratio, ratio)
    cube, cube_rest = on.product(ratio, square)
    cube_rest = on.fma(ratio, square_rest, on.fma(arith.mulf(square, on.number(1.5)), low, cube_rest))
    cubed, cubed_rest = on.product(cube, on.number(2 / 3))
    cubed_rest = on.fma(cube_rest, on.number(2 / 3), on.fma(cube, on.number(_TWO_THIRDS_REST), cubed_rest))
    series = on.polynomial(square, [2 / (2 * n + 1) for n in range(12, 1, -1)])
    small = arith.addf(low, on.fma(arith.mulf(cube, square), series, cubed_rest))
    # The product with the first part of log(2) is exact.
    whole, rest = arith.mulf(exponent, on.number(6.93145751953125e-1)), small
    second, second_rest = on.product(exponent, on.number(1.42860682030941723212e-6))
    for term in (arith.addf(ratio, ratio), cubed, second):
        whole, lost = on.sum(whole, term)
        rest = arith.addf(rest, lost)
    rest = arith.addf(rest, second_rest)
    value = arith.addf(whole, rest)
    return _at_the_edges(on, x, value), arith.subf(rest, arith.subf(value, whole))


def _split(on: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """e and f of `x = 2 ** e * (1 + f)`, with 1 + f from sqrt(1/2) to sqrt(2)."""
    smallest = 2.0 ** (1 - on.bias)
    scale = on.mantissa_bits + 2
    is_denormal = on.less(x, on.number(smallest))
    bits = on.bits(arith.select(is_denormal, arith.mulf(x, on.number(2.0**scale)), x))
    above = arith.subi(bits, on.integer(on.bits_of(python_math.sqrt(0.5))))
    count = arith.shrsi(above, on.integer(on.mantissa_bits))
    fraction = on.floats(arith.subi(bits, arith.shli(count, on.integer(on.mantissa_bits))))
    exponent = arith.sitofp(x.type, count)
    exponent = arith.select(is_denormal, arith.subf(exponent, on.number(scale)), exponent)
    return exponent, arith.subf(fraction, on.number(1))


def _at_the_edges(on: Arithmetic, x: ir.Value, value: ir.Value) -> ir.Value:
    infinity = on.number(python_math.inf)
    value = arith.select(on.equal(x, infinity), infinity, value)
    value = arith.select(on.equal(x, on.number(0)), on.number(-python_math.inf), value)
    # NaN for negative numbers and NaN.
    is_number = arith.cmpf(arith.CmpFPredicate.OGE, x, on.number(0))
    return arith.select(is_number, value, on.number(python_math.nan))


def log1p(on: Arithmetic, x: ir.Value) -> ir.Value:
    """log(1 + x) within 3 ulp: log of the rounded sum, corrected by the rounding error."""
    total = arith.addf(x, on.number(1))
    lost = arith.subf(x, arith.subf(total, on.number(1)))
    is_ordinary = arith.andi(on.less(on.number(0), total), on.less(total, on.number(python_math.inf)))
    value = log(on, total)
    return arith.select(is_ordinary, arith.addf(value, arith.divf(lost, total)), value)


def pow(on: Arithmetic, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """A power as in IEEE 754 of numbers converted from f32: computed in f64, and within 1 ulp after rounding to f32."""
    return _signed(on, base, exponent, exp(on, arith.mulf(exponent, log(on, math.absf(base)))))


def pow_of_double(on: Arithmetic, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """A power as in IEEE 754, within 1 ulp of f64: the argument of the exponential is a sum of two numbers.

    Powers that an f64 holds exactly, such as `3.0 ** 4`, are exact: programs round them down to integers.
    """
    first, second = _log_in_two(on, math.absf(base))
    product = arith.mulf(exponent, first)
    lost = on.fma(exponent, second, on.fma(exponent, first, arith.negf(product)))
    is_bounded = on.less(math.absf(product), on.number(1000))
    size = exp_of_sum(on, product, arith.select(is_bounded, lost, on.number(0)))
    return _signed(on, base, exponent, size)


def _signed(on: Arithmetic, base: ir.Value, exponent: ir.Value, size: ir.Value) -> ir.Value:
    """The power with its sign and special cases, given the power `size` of the absolute base."""
    one, zero, half = on.number(1), on.number(0), on.number(0.5)
    is_whole = on.equal(math.floor(exponent), exponent)
    halved = arith.mulf(exponent, half)
    is_even = on.equal(math.floor(halved), halved)
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, on.bits(base), on.integer(0))
    is_odd = arith.andi(is_whole, arith.xori(is_even, _true_like(is_even)))
    value = arith.select(arith.andi(is_negative, is_odd), arith.negf(size), size)
    # Powers of negative bases are NaN unless the exponent is an integer; for an infinite base it counts as even.
    has_none = arith.andi(on.less(base, zero), arith.xori(is_whole, _true_like(is_whole)))
    is_finite = on.less(math.absf(base), on.number(python_math.inf))
    value = arith.select(arith.andi(has_none, is_finite), on.number(python_math.nan), value)
    is_one = arith.ori(on.equal(exponent, zero), on.equal(base, one))
    is_unit = arith.andi(on.equal(math.absf(base), one), on.equal(math.absf(exponent), on.number(python_math.inf)))
    return arith.select(arith.ori(is_one, is_unit), one, value)


def _true_like(flag: ir.Value) -> ir.Value:
    bit = ir.IntegerType.get_signless(1)
    if not isinstance(flag.type, ir.VectorType):
        return arith.constant(bit, 1)
    return arith.constant(flag.type, ir.DenseElementsAttr.get_splat(flag.type, ir.BoolAttr.get(True)))
