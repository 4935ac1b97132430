"""The gamma function's logarithm and derivatives, and Hurwitz' zeta function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from .....dialects.stepwell.reduction import ReduceMaxOp
from ....build import cast, emit, rank
from ....formulas import Formula, cos, exp, floor, log, polynomial, sin
from ....loops import Carried, repeated
from ...node import AtenNode
from ...registry import imports
from ..arithmetic import as_value
from ..movement import broadcast
from . import tables
from .functions import epsilon, imports_function, widened

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The even Bernoulli numbers from the second one on."""

_STIRLING = [number / (2 * k * (2 * k - 1)) for k, number in enumerate(_BERNOULLI, 1)][::-1]
_DIGAMMA = [number / (2 * k) for k, number in enumerate(_BERNOULLI, 1)][::-1]
_SHIFT = 10
"""Least number for the asymptotic series, as in PyTorch's digamma, which is that of Cephes."""
_MOST_TERMS = 2000
"""Maximum number of terms of a series, as in PyTorch."""


@imports_function("aten.lgamma.default", "prims.lgamma.default")
def lgamma(x: Formula) -> Formula:
    """log |gamma(x)|: Stirling's series beyond 10, and from there downwards by gamma(x + 1) = x gamma(x).

    Negative numbers by gamma(x) gamma(1 - x) = pi / sin(pi x).
    """
    is_low = x < 0.5
    up = (1 - x).where(is_low, x)
    is_small = up < _SHIFT
    product = up
    for step in range(1, _SHIFT):
        product = product * (up + step)
    far = (up + _SHIFT).where(is_small, up)
    inverse = 1 / far
    series = polynomial(inverse * inverse, _STIRLING) * inverse
    made = (far - 0.5) * log(far) - far + 0.5 * math.log(2 * math.pi) + series
    made = made - (log(product)).where(is_small, 0)
    made = made.where(up < np.inf, np.inf)
    rest = x - floor(x)
    mirrored = math.log(math.pi) - log(sin(rest * math.pi)) - made
    # At the integers up to 0 the sine is 0, of which the logarithm may be NaN.
    mirrored = mirrored.where(rest > 0, np.inf)
    return mirrored.where(is_low & (x > -np.inf), made.where(x.equals(x), np.nan))


@imports_function("aten.digamma.default", "aten.special_digamma.default", "prims.digamma.default")
def digamma(x: Formula) -> Formula:
    """The derivative of lgamma: an asymptotic series beyond 10, and from there downwards by steps of 1."""
    is_low = x < 0
    up = (1 - x).where(is_low, x)
    is_small, total = up < _SHIFT, up * 0
    for step in range(_SHIFT):
        total = total + 1 / (up + step)
    far = (up + _SHIFT).where(is_small, up)
    inverse = 1 / far
    square = inverse * inverse
    made = log(far) - 0.5 * inverse - polynomial(square, _DIGAMMA) * square - total.where(is_small, 0)
    rest = x - floor(x)
    angle = rest * math.pi
    mirrored = (made - math.pi * cos(angle) / sin(angle)).where(rest > 0, np.nan)
    # The sign of a zero counts: its reciprocal shows it.
    return mirrored.where(is_low, made).where(~x.equals(0), -1 / x)


@imports("aten.special_zeta.default", "prims.zeta.default")
def zeta(node: AtenNode, input: Any = None, other: Any = None, b: Any = None) -> ir.Value:
    """Hurwitz' zeta function: the sum of (q + k) ** -x over all k from 0 on."""
    x, q = (widened(as_value(item, node.dtype()), node.dtype()) for item in (input, b if other is None else other))
    return cast(_zeta(x, q).value, node.dtype())


def _zeta(x: Formula, q: Formula) -> Formula:
    """Terms up to q + k > 9, and the Euler-Maclaurin series for the rest."""
    total = _power_of(q, x)
    for step in range(1, 10):
        total = total + _power_of(q + step, x)
    total, last = _with_terms(x, total, q + 9)
    power = _power_of(last, x)
    made = total + power * last / (x - 1) - 0.5 * power
    factor, power = x * 0 + 1, power * 1
    for k, divisor in enumerate(tables.ZETA):
        factor, power = factor * (x + 2 * k), power / last
        made = made + factor * power / divisor
        factor, power = factor * (x + 2 * k + 1), power / last
    is_whole = floor(q).equals(q)
    at_pole = (x * 0 + np.inf).where(is_whole, np.nan)
    made = at_pole.where((q <= 0) & (is_whole | ~floor(x).equals(x)), made.where(q < np.inf, 0))
    return made.where(x > 1, (x * np.inf).where(x.equals(1), np.nan))


def _power_of(base: Formula, exponent: Formula) -> Formula:
    return base**-exponent


def _with_terms(x: Formula, total: Formula, last: Formula) -> tuple[Formula, Formula]:
    """Adds the terms up to last > 9: more than one only if the first one is negative."""

    def goes_on(last: Formula) -> ir.Value:
        active = last <= 9
        return _any(active & (last > -_MOST_TERMS))

    def body(number: ir.Value, values: Carried) -> tuple[ir.Value, Carried]:
        before, place = map(Formula, values)
        active, following = place <= 9, place + 1
        added = before + _power_of(following, x)
        place = following.where(active, place)
        return goes_on(place), [added.where(active, before).value, place.value]

    made = _iterated([total, last], body, goes_on(last))
    return Formula(made[0]), Formula(made[1])


def _any(condition: Formula) -> ir.Value:
    axes = tuple(range(rank(condition.value)))
    return emit(ReduceMaxOp, condition.value, axes=axes, keepdims=False) if axes else condition.value


@imports("aten.polygamma.default", "aten.special_polygamma.default")
def polygamma(node: AtenNode, n: int, input: ir.Value) -> ir.Value:
    """The n-th derivative of digamma: (-1) ** (n + 1) n! zeta(n + 1, x)"""
    x = widened(input, node.dtype())
    if n == 0:
        return cast(digamma(x).value, node.dtype())
    if n == 1:
        return cast(_trigamma(x).value, node.dtype())
    factor = float(math.factorial(n)) * (1 if n % 2 else -1)
    return cast((_zeta(x * 0 + (n + 1), x) * factor).value, node.dtype())


def _trigamma(x: Formula) -> Formula:
    """An asymptotic series beyond 6, and from there downwards by steps of 1; below 1 / 2 by a sine, as in torch."""
    is_low = x < 0.5
    sine = sin(x * math.pi)
    up = (1 - x).where(is_low, x)
    total = 1 / (up * up)
    for step in range(1, 6):
        total = total + 1 / ((up + step) * (up + step))
    inverse = 1 / (up + 6)
    square = inverse * inverse
    total = total + (1 + 0.5 * inverse + square * polynomial(square, (1 / 42, -1 / 30, 1 / 6))) * inverse
    return (math.pi**2 / (sine * sine) - total).where(is_low, total)


@imports("aten.igamma.default", "aten.special_gammainc.default", "prims.igamma.default")
def igamma(node: AtenNode, input: ir.Value, other: Any = None, b: Any = None) -> ir.Value:
    """The share of the integral of t ** (a - 1) exp(-t) up to x."""
    return _share(node, input, b if other is None else other, is_lower=True)


@imports("aten.igammac.default", "aten.special_gammaincc.default", "prims.igammac.default")
def igammac(node: AtenNode, input: ir.Value, other: Any = None, b: Any = None) -> ir.Value:
    """The share of the integral of t ** (a - 1) exp(-t) beyond x."""
    return _share(node, input, b if other is None else other, is_lower=False)


def _share(node: AtenNode, a: ir.Value, x: ir.Value, is_lower: bool) -> ir.Value:
    """A series for the share below if x < a + 1, else a continued fraction for the share above (DLMF 8.11.4, 8.9.2).

    In f64: the factor of both, x ** a exp(-x) / gamma(a), is the exponential of a difference of great numbers.
    """
    wide = np.dtype(np.float64)
    given = [Formula(broadcast(cast(item, wide), node.sizes())) for item in (a, x)]
    is_inside = (given[0] > 0) & (given[1] > 0) & (given[0] < np.inf) & (given[1] < np.inf)
    shape, point = (item.where(is_inside, 1) for item in given)
    is_low = point < shape + 1
    factor = exp(shape * log(point) - point - lgamma(shape))
    below = _lower_series(shape.where(is_low, 1), point.where(is_low, 1)) * factor / shape
    above = _upper_fraction(shape.where(~is_low, 1), point.where(~is_low, 3)) * factor
    made = below.where(is_low, 1 - above) if is_lower else (1 - below).where(is_low, above)
    return cast(made.where(is_inside, _share_at_ends(given[0], given[1], is_lower)).value, node.dtype())


def _share_at_ends(a: Formula, x: Formula, is_lower: bool) -> Formula:
    """The shares for numbers that are 0, infinite, or outside of the domain."""
    is_zero, is_infinite = a.equals(0) & x.equals(0), a.equals(np.inf) & x.equals(np.inf)
    is_valid = (a >= 0) & (x >= 0) & ~is_zero & ~is_infinite
    is_all = a.equals(0) | x.equals(np.inf)
    share = ((is_all if is_lower else ~is_all) & is_valid).as_type(np.float64)
    return share.where(is_valid, np.nan)


def _lower_series(a: Formula, x: Formula) -> Formula:
    """1 + x / (a + 1) + x ** 2 / ((a + 1) (a + 2)) + ..."""
    one = a * 0 + 1

    def body(number: ir.Value, values: Carried) -> tuple[ir.Value, Carried]:
        place, term, total = map(Formula, values)
        place = place + 1
        term = term * x / place
        total = total + term
        return _any(term > total * epsilon(total)), [place.value, term.value, total.value]

    return Formula(_iterated([a, one, one], body)[2])


def _upper_fraction(a: Formula, x: Formula) -> Formula:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...))), by Lentz' method"""
    tiny = 1e-300
    first = x + 1 - a

    def body(number: ir.Value, values: Carried) -> tuple[ir.Value, Carried]:
        step, base, upper, lower, made = map(Formula, values)
        step, base = step + 1, base + 2
        over = -step * (step - a)
        lower, upper = over * lower + base, base + over / upper
        lower, upper = (item.where(abs(item) > tiny, tiny) for item in (lower, upper))
        lower = 1 / lower
        change = lower * upper
        made = made * change
        goes_on = _any(abs(change - 1) > epsilon(made) * 2)
        return goes_on, [item.value for item in (step, base, upper, lower, made)]

    start = a * 0, first, a * 0 + 1 / tiny, 1 / first, 1 / first
    return Formula(_iterated(start, body)[4])


def _iterated(
    start: Sequence[Formula],
    body: Callable[[ir.Value, Carried], tuple[ir.Value, Carried]],
    begins: ir.Value | None = None,
) -> Carried:
    """The last values of a loop that goes on while an element has not converged."""
    limit = as_value(_MOST_TERMS, np.dtype(np.int64))
    return repeated(limit, begins, [item.value for item in start], body)
