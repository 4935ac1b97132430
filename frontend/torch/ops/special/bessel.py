"""Bessel functions and the Airy function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....formulas import Formula, chebyshev_series, cos, exp, log, polynomial, sin, sqrt
from . import bessel_tables, tables
from .functions import epsilon, imports_function

_ROOTS = ((5.78318596294678452118, 30.4712623436620863991), (14.6819706421238932572, 49.2184563216946036703))
"""The squares of the first two positive zeros of J0 and of J1."""


def _quotient(x: Formula, order: int, name: str) -> Formula:
    # Some of Cephes' denominators have a further coefficient of 1, which PyTorch leaves out.
    numerator, denominator = (
        getattr(bessel_tables, f"B{order}_{name}_{part}") for part in ("NUMERATOR", "DENOMINATOR")
    )
    return polynomial(x, numerator) / polynomial(x, denominator)


def _wave(x: Formula, order: int) -> tuple[Formula, Formula]:
    """J and Y beyond 5, where they are damped waves."""
    w = 5 / x
    z, phase = w * w, x - (2 * order + 1) * math.pi / 4
    in_phase, across = _quotient(z, order, "P"), w * _quotient(z, order, "Q")
    scale = sqrt(1 / x) * math.sqrt(2 / math.pi)
    return (
        scale * (in_phase * cos(phase) - across * sin(phase)),
        scale * (in_phase * sin(phase) + across * cos(phase)),
    )


def _first(x: Formula, order: int) -> Formula:
    """J of 0 <= x <= 5"""
    z = x * x
    low, high = _ROOTS[order]
    made = _quotient(z, order, "J") * (z - low) * (z - high)
    return made * x if order else made


@imports_function("aten.special_bessel_j0.default", "prims.bessel_j0.default")
def j0(x: Formula) -> Formula:
    """The Bessel function of the first kind of order 0."""
    size = abs(x)
    return _first(size, 0).where(size <= 5, _wave(size, 0)[0])


@imports_function("aten.special_bessel_j1.default", "prims.bessel_j1.default")
def j1(x: Formula) -> Formula:
    """The Bessel function of the first kind of order 1."""
    size = abs(x)
    made = _first(size, 1).where(size <= 5, _wave(size, 1)[0])
    return made.where(x >= 0, -made)


def _second(x: Formula, order: int) -> Formula:
    """Y; infinite at 0, NaN below."""
    near, j = _quotient(x * x, order, "Y"), _first(x, order)
    if order:
        near = x * near + (2 / math.pi) * (j * log(x) - 1 / x)
    else:
        near = near + (2 / math.pi) * log(x) * j
    made = near.where(x <= 5, _wave(x, order)[1])
    return made.where(x > 0, (x - np.inf).where(x.equals(0), np.nan))


@imports_function("aten.special_bessel_y0.default")
def y0(x: Formula) -> Formula:
    """The Bessel function of the second kind of order 0."""
    return _second(x, 0)


@imports_function("aten.special_bessel_y1.default")
def y1(x: Formula) -> Formula:
    """The Bessel function of the second kind of order 1."""
    return _second(x, 1)


def _modified(x: Formula, order: int, is_scaled: bool) -> Formula:
    """I of order 0 or 1, times exp(-|x|) if it is scaled."""
    size = abs(x)
    near = chebyshev_series(size * 0.5 - 2, getattr(bessel_tables, f"I{order}_NEAR"))
    far = chebyshev_series(32 / size - 2, getattr(bessel_tables, f"I{order}_FAR")) / sqrt(size)
    made = (near * size if order else near).where(size <= 8, far)
    made = made if is_scaled else made * exp(size)
    return made.where(x >= 0, -made) if order else made


def _modified_second(x: Formula, order: int, is_scaled: bool) -> Formula:
    """K of order 0 or 1, times exp(x) if it is scaled; infinite at 0, NaN below."""
    near = chebyshev_series(x * x - 2, getattr(bessel_tables, f"K{order}_NEAR"))
    if order:
        near = log(0.5 * x) * _modified(x, 1, False) + near / x
    else:
        near = near - log(0.5 * x) * _modified(x, 0, False)
    far = chebyshev_series(8 / x - 2, getattr(bessel_tables, f"K{order}_FAR")) / sqrt(x)
    made = (near * exp(x)).where(x <= 2, far) if is_scaled else near.where(x <= 2, far * exp(-x))
    return made.where(x > 0, (x + np.inf).where(x.equals(0), np.nan))


def _of_order(kind: Callable[[Formula, int, bool], Formula], order: int, is_scaled: bool) -> Callable[..., Formula]:
    return lambda x: kind(x, order, is_scaled)


for _order in (0, 1):
    _plain = f"aten.special_modified_bessel_i{_order}.default"
    _aliases = ("aten.i0.default",) if _order == 0 else ("aten.special_i1.default",)
    imports_function(_plain, f"prims.bessel_i{_order}.default", *_aliases)(_of_order(_modified, _order, False))
    imports_function(f"aten.special_i{_order}e.default", f"prims.bessel_i{_order}e.default")(
        _of_order(_modified, _order, True)
    )
    imports_function(f"aten.special_modified_bessel_k{_order}.default")(_of_order(_modified_second, _order, False))
    imports_function(f"aten.special_scaled_modified_bessel_k{_order}.default")(
        _of_order(_modified_second, _order, True)
    )


@imports_function("aten.special_spherical_bessel_j0.default", "prims.spherical_bessel_j0.default")
def spherical_j0(x: Formula) -> Formula:
    """sin(x) / x, and 0 at infinity; near 0 by its series."""
    near = polynomial(x * x, [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
    size = abs(x)
    return near.where(size < 0.5, (sin(x) / x).where(~size.equals(np.inf), 0))


@imports_function("aten.special_airy_ai.default")
def airy(x: Formula) -> Formula:
    """The Airy function: a wave below -2.09, damped beyond 2.09, and a power series between."""
    size = abs(x)
    root = sqrt(size)
    angle = size * root * (2 / 3)
    inverse, scale = 1 / angle, 1 / (math.sqrt(math.pi) * sqrt(root))
    z, phase = inverse * inverse, angle + math.pi / 4
    damped = polynomial(inverse, tables.AIRY_NUMERATOR) / polynomial(inverse, tables.AIRY_DENOMINATOR)
    right = scale * damped * 0.5 * exp(-angle)
    of_sine = 1 + z * polynomial(z, tables.AIRY_SINE_NUMERATOR) / polynomial(z, tables.AIRY_SINE_DENOMINATOR)
    of_cosine = polynomial(z, tables.AIRY_COSINE_NUMERATOR) / polynomial(z, tables.AIRY_COSINE_DENOMINATOR)
    left = scale * (sin(phase) * of_sine - cos(phase) * inverse * of_cosine)
    made = right.where(x > 0, left).where(size >= 2.09, _airy_series(x))
    return made.where(size < np.inf, np.nan)


def _airy_series(x: Formula) -> Formula:
    """0.355 (1 + x^3 / (2 * 3) + ...) - 0.259 (x + x^4 / (3 * 4) + ...), for |x| < 2.09"""
    cube, even, odd = x * x * x, [1.0], [1.0]
    while even[-1] * 2.09 ** (3 * len(even)) > epsilon(x) / 4:
        k = 3 * len(even)
        even.append(even[-1] / (k * (k - 1)))
        odd.append(odd[-1] / (k * (k + 1)))
    first, second = polynomial(cube, even[::-1]), x * polynomial(cube, odd[::-1])
    return 0.355028053887817239260 * first - 0.258819403792806798405 * second
