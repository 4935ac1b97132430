"""Quotients of expressions over sizes by numbers, which models compute from sizes in floating point.

`Cast(n) / 2` is the ratio n/2, and its `Ceil` the expression (n + 1) // 2. A float holds the exact value of a ratio
whose divisor is a power of two and whose numerator fits into its digits; others are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsIndex

from . import extrema
from .algebra import Dimension, Symbolic, bounds, ceil_div, floor_div, terms_of


@dataclass(frozen=True, slots=True)
class Ratio:
    """`numerator / divisor`, in lowest terms; the divisor is positive. Made by `ratio`."""

    numerator: Dimension
    divisor: int = 1

    def __add__(self, other: Ratio) -> Ratio:
        return ratio(self.numerator * other.divisor + other.numerator * self.divisor, self.divisor * other.divisor)

    def __neg__(self) -> Ratio:
        return Ratio(self.numerator * -1, self.divisor)

    def __sub__(self, other: Ratio) -> Ratio:
        return self + -other

    def __mul__(self, other: Ratio) -> Ratio:
        return ratio(self.numerator * other.numerator, self.divisor * other.divisor)

    def over(self, number: Ratio) -> Ratio:
        """Returns the quotient by a ratio that is a number other than 0."""
        assert isinstance(number.numerator, int), f"{number} is not a number"
        return ratio(self.numerator * number.divisor, self.divisor * number.numerator)

    def __str__(self) -> str:
        return str(self.numerator) if self.divisor == 1 else f"({self.numerator}) / {self.divisor}"

    def is_exact_in(self, digits: int) -> bool:
        """Returns whether floats of this number of binary digits hold the value at all sizes."""
        return self.is_dyadic and self.is_within(digits)

    @property
    def is_dyadic(self) -> bool:
        """True if the divisor is a power of two."""
        return self.divisor & (self.divisor - 1) == 0

    def is_within(self, digits: int) -> bool:
        """Returns whether the numerator has at most this number of binary digits at all sizes."""
        low, high = bounds(self.numerator, {})
        return low is not None and high is not None and max(-low, high) < 1 << digits

    @property
    def number(self) -> float | None:
        """The value if it does not depend on sizes."""
        return self.numerator / self.divisor if isinstance(self.numerator, int) else None

    @property
    def floor(self) -> Dimension:
        """The value rounded down."""
        return floor_div(self.numerator, self.divisor)

    @property
    def ceil(self) -> Dimension:
        """The value rounded up."""
        return ceil_div(self.numerator, self.divisor)


def ratio(numerator: Dimension, divisor: int) -> Ratio:
    """Returns `numerator / divisor`; the divisor is not 0."""
    common = math.gcd(divisor, *(factor for _, factor in terms_of(numerator))) * (1 if divisor > 0 else -1)
    return Ratio(floor_div(numerator, common), divisor // common)


def entry(value: Dimension | Ratio | float) -> Ratio:
    """Returns the exact value of an entry of a tensor's contents: an expression, a ratio, or a number.

    Raises:
        ValueError, OverflowError: it is a number that is not finite.
    """
    if isinstance(value, Ratio):
        return value
    if isinstance(value, Symbolic):
        return Ratio(value)
    return Ratio(int(value)) if isinstance(value, SupportsIndex) else Ratio(*float(value).as_integer_ratio())


def over_one_divisor(ratios: Iterable[Ratio]) -> tuple[list[Dimension], int]:
    """Returns the numerators of ratios over one common divisor, and the divisor."""
    given = list(ratios)
    divisor = math.lcm(*(item.divisor for item in given))
    return [item.numerator * (divisor // item.divisor) for item in given], divisor


def extremum(ratios: Iterable[Ratio], is_least: bool) -> Ratio:
    """Returns the least or the greatest of some ratios."""
    numerators, divisor = over_one_divisor(ratios)
    return ratio((extrema.least if is_least else extrema.greatest)(numerators), divisor)
