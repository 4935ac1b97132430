"""asin, acos and atan.

Sources: S. Moshier, Cephes Mathematical Library (f32, and atan); fdlibm's e_asin.c and e_acos.c (f64).
"""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith, math

from .arithmetic import Arithmetic

# asin(x) = x + x * z * p(z), z = x * x, for magnitudes up to a half.
_ASIN_F32 = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ASIN_NUMERATOR = (
    3.47933107596021167570e-05,
    7.91534994289814532176e-04,
    -4.00555345006794114027e-02,
    2.01212532134862925881e-01,
    -3.25565818622400915405e-01,
    1.66666666666666657415e-01,
)
_ASIN_DENOMINATOR = (
    7.70381505559019352791e-02,
    -6.88283971605453293030e-01,
    2.02094576023350569471e00,
    -2.40339491173441421878e00,
    1.0,
)
# atan(x) = x + x * z * p(z) for magnitudes up to tan(pi / 8), or 0.66 in f64.
_ATAN_F32 = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_ATAN_NUMERATOR = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_ATAN_DENOMINATOR = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)
# pi / 2 in two parts.
_HALF_PI = {
    False: (1.57079637050628662109375, -4.37113900018624283e-8),
    True: (python_math.pi / 2, 6.123233995736766e-17),
}


def _asin_tail(on: Arithmetic, square: ir.Value) -> ir.Value:
    """(asin(x) - x) / x for x = sqrt(square)."""
    if on.is_double:
        ratio = arith.divf(on.polynomial(square, _ASIN_NUMERATOR), on.polynomial(square, _ASIN_DENOMINATOR))
        return arith.mulf(square, ratio)
    return arith.mulf(square, on.polynomial(square, _ASIN_F32))


def _halves(on: Arithmetic, size: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """A flag for size > 1/2; the reduced argument, sqrt((1 - size) / 2) if the flag is set, else size; and its asin."""
    half = on.number(0.5)
    is_large = on.less(half, size)
    complement = arith.mulf(half, arith.subf(on.number(1), size))
    square = arith.select(is_large, complement, arith.mulf(size, size))
    root = arith.select(is_large, math.sqrt(complement), size)
    return is_large, root, on.fma(root, _asin_tail(on, square), root)


def asin(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The inverse sine within 3 ulp; NaN outside of [-1, 1]."""
    # For large x, asin(x) = pi / 2 - 2 * asin(sqrt((1 - x) / 2)).
    is_large, _, near = _halves(on, math.absf(x))
    high, low = _HALF_PI[on.is_double]
    far = arith.addf(on.number(high), on.fma(on.number(-2.0), near, on.number(low)))
    return math.copysign(arith.select(is_large, far, near), x)


def acos(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The inverse cosine within 2 ulp; NaN outside of [-1, 1]."""
    is_large, _, near = _halves(on, math.absf(x))
    high, low = (on.number(part) for part in _HALF_PI[on.is_double])
    signed = math.copysign(near, x)
    small = arith.subf(high, arith.subf(signed, low))
    twice = arith.addf(near, near)
    below = arith.addf(arith.addf(high, high), arith.subf(arith.addf(low, low), twice))
    large = arith.select(on.less(x, on.number(0)), below, twice)
    return arith.select(is_large, large, small)


def atan(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The inverse tangent within 2 ulp: larger arguments are reduced to a small one plus a fraction of pi."""
    size = math.absf(x)
    is_huge = on.less(on.number(1 + python_math.sqrt(2)), size)
    is_middle = on.less(on.number(0.66 if on.is_double else python_math.sqrt(2) - 1), size)
    zero, one = on.number(0), on.number(1)
    upper = arith.select(is_huge, on.number(-1), arith.subf(size, one))
    lower = arith.select(is_huge, size, arith.addf(size, one))
    small = arith.select(is_middle, arith.divf(upper, lower), size)
    high, low = _HALF_PI[on.is_double]
    base = arith.select(is_huge, on.number(high), arith.select(is_middle, on.number(high / 2), zero))
    rest = arith.select(is_huge, on.number(low), arith.select(is_middle, on.number(low / 2), zero))
    square = arith.mulf(small, small)
    if on.is_double:
        tail = arith.divf(on.polynomial(square, _ATAN_NUMERATOR), on.polynomial(square, _ATAN_DENOMINATOR))
    else:
        tail = on.polynomial(square, _ATAN_F32)
    near = on.fma(arith.mulf(small, square), tail, arith.addf(small, rest))
    return math.copysign(arith.addf(base, near), x)
