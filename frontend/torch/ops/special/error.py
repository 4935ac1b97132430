"""The error function's relatives and the normal distribution."""

from __future__ import annotations

import math

import numpy as np

from .....dialects.stepwell import elementwise as ew
from ....formulas import Formula, exp, log, polynomial, sqrt
from . import tables
from .functions import imports_function

_LAST = 0.13533528323661269189
"""exp(-2): probability below which the inverse of the normal distribution has a separate formula."""


@imports_function("aten.erfc.default", "prims.erfc.default")
def erfc(x: Formula) -> Formula:
    """1 - erf(x), accurate where erf(x) is near 1"""
    size = abs(x)
    far = exp(-(size * size)) * _scaled_tail(size.at_least(1))
    far = far.where(x > 0, 2 - far)
    return (1 - x.by(ew.ErfOp)).where(size < 1, far)


@imports_function("aten.special_erfcx.default", "prims.erfcx.default")
def erfcx(x: Formula) -> Formula:
    """exp(x * x) * erfc(x)"""
    size = abs(x)
    tail, square = _scaled_tail(size.at_least(1)), exp(x * x)
    far = tail.where(x > 0, 2 * square - tail)
    return (square * (1 - x.by(ew.ErfOp))).where(size < 1, far)


def _scaled_tail(x: Formula) -> Formula:
    """exp(x * x) * erfc(x) for x >= 1; a quotient of polynomials in 1 / x beyond 8, which cannot overflow."""
    near = x.at_most(8)
    middle = polynomial(near, tables.ERFCX_NUMERATOR) / polynomial(near, tables.ERFCX_DENOMINATOR)
    inverse = 1 / x.at_least(8)
    top, bottom = (tuple(reversed(c)) for c in (tables.ERFCX_FAR_NUMERATOR, tables.ERFCX_FAR_DENOMINATOR))
    far = polynomial(inverse, top) / polynomial(inverse, bottom) * inverse
    return middle.where(x < 8, far)


@imports_function("aten.special_log_ndtr.default")
def log_ndtr(x: Formula) -> Formula:
    """The logarithm of the normal distribution's probability of a number up to x."""
    t = x * math.sqrt(0.5)
    return (log(erfcx(-t) * 0.5) - t * t).where(x < -1, log(1 - 0.5 * erfc(t)))


@imports_function("aten.erfinv.default", "prims.erf_inv.default")
def erfinv(y: Formula) -> Formula:
    """x with erf(x) = y: a rational approximation, and two steps of Newton's method (G. Pavlis' erfinv.m)"""
    size, square = abs(y), y * y
    top, bottom = (-0.140543331, 0.914624893, -1.645349621, 0.886226899), (0.012229801, -0.329097515, 1.442710462)
    near = y * polynomial(square, top) / polynomial(square, (*bottom, -2.118377725, 1.0))
    z = sqrt(-log((1 - size) * 0.5))
    far = polynomial(z, (1.641345311, 3.429567803, -1.624906493, -1.970840454))
    far = far / polynomial(z, (1.637067800, 3.543889200, 1.0))
    x = near.where(size <= 0.7, far.where(y > 0, -far))
    for _ in range(2):
        x = x - (x.by(ew.ErfOp) - y) / (exp(-(x * x)) * (2 / math.sqrt(math.pi)))
    infinite = (y * np.inf).where(size.equals(1), np.nan)
    return x.where(size < 1, infinite)


@imports_function("aten.special_ndtri.default", "prims.ndtri.default")
def ndtri(y: Formula) -> Formula:
    """The quantile of the normal distribution for a probability."""
    is_upper = y > 1 - _LAST
    tail = (1 - y).where(is_upper, y)
    centre = tail - 0.5
    square = centre * centre
    middle = centre + centre * (square * polynomial(square, tables.NDTRI_P0) / polynomial(square, tables.NDTRI_Q0))
    z = sqrt(-2 * log(tail))
    inverse = 1 / z
    near = polynomial(inverse, tables.NDTRI_P1) / polynomial(inverse, tables.NDTRI_Q1)
    far = polynomial(inverse, tables.NDTRI_P2) / polynomial(inverse, tables.NDTRI_Q2)
    outer = z - log(z) * inverse - inverse * near.where(z < 8, far)
    made = (middle * math.sqrt(2 * math.pi)).where(tail > _LAST, outer.where(is_upper, -outer))
    ends = (y * 0 - np.inf).where(y.equals(0), (y * 0 + np.inf).where(y.equals(1), np.nan))
    return made.where((y > 0) & (y < 1), ends)
