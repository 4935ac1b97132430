"""Arithmetic of intervals of whole numbers."""

from __future__ import annotations

import math

Interval = tuple[int | None, int | None]
"""The least and the greatest value; None is without a limit."""

_INFINITE = math.inf


def chosen(is_least: bool, lows: list[int | None], highs: list[int | None]) -> Interval:
    """Returns the interval of the least or the greatest of values in intervals with these ends."""
    if is_least:
        known = [high for high in highs if high is not None]
        return (None if None in lows else min(low for low in lows if low is not None)), min(known, default=None)
    known = [low for low in lows if low is not None]
    return max(known, default=None), (None if None in highs else max(high for high in highs if high is not None))


def quotient(numerator: Interval, divisor: Interval) -> Interval:
    """Returns the interval of a quotient rounded down; without limits if the divisor may be 0 or negative."""
    (low, high), (least_by, most_by) = numerator, divisor
    if least_by is None or least_by <= 0:
        return None, None

    def at(value: int | None, is_low: bool) -> int | None:
        if value is None:
            return None
        # A negative numerator is least for the least divisor, a positive one for the greatest.
        by = least_by if (value < 0) == is_low else most_by
        return value // by if by is not None else (0 if value >= 0 else -1)

    return at(low, True), at(high, False)


def remainder(numerator: Interval, divisor: Interval) -> Interval:
    """Returns the interval of a remainder; without limits if the divisor may be 0 or negative."""
    (low, high), (least_by, most_by) = numerator, divisor
    if least_by is None or least_by <= 0:
        return None, None
    tops = [] if most_by is None else [most_by - 1]
    if low is not None and low >= 0 and high is not None:
        tops.append(high)
    return 0, min(tops, default=None)


def divided(interval: Interval, by: int) -> Interval:
    """Returns the interval of whole numbers whose multiple by a positive number is in an interval."""
    low, high = interval
    return None if low is None else -(-low // by), None if high is None else high // by


def both(one: Interval, other: Interval) -> Interval:
    """Returns the interval of the values that are in both intervals."""
    lows, highs = zip(one, other, strict=True)
    return (
        max((low for low in lows if low is not None), default=None),
        min((high for high in highs if high is not None), default=None),
    )


def plus(left: Interval, right: Interval) -> Interval:
    """Returns the interval of a sum of independent values."""
    (low, high), (least, most) = left, right
    return None if low is None or least is None else low + least, None if high is None or most is None else high + most


def times(left: Interval, right: Interval) -> Interval:
    """Returns the interval of a product of independent values."""
    ends = [_end(a, i, b, j) for i, a in enumerate(left) for j, b in enumerate(right)]
    return _least_end(ends), _greatest_end(ends)


def _end(left: int | None, at_left: int, right: int | None, at_right: int) -> float:
    """Returns the product of two ends of intervals, of which a missing one is infinite; 0 times anything is 0."""
    if left == 0 or right == 0:
        return 0
    signs = [
        (-1 if place == 0 else 1) * _INFINITE if end is None else end
        for end, place in ((left, at_left), (right, at_right))
    ]
    return signs[0] * signs[1]


def _least_end(ends: list[float]) -> int | None:
    end = min(ends)
    return None if end == -_INFINITE else int(end)


def _greatest_end(ends: list[float]) -> int | None:
    end = max(ends)
    return None if end == _INFINITE else int(end)


def power(interval: Interval, power: int) -> Interval:
    """Returns the interval of a power of one value."""
    found = interval
    for _ in range(power - 1):
        found = times(found, interval)
    if power % 2 == 0:  # never negative
        return max(0, found[0]) if found[0] is not None else 0, found[1]
    return found
