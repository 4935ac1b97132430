"""Ratios of expressions and numbers, compared with Python's fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.sizes.algebra import size
from stepwell.sizes.assumptions import assuming
from stepwell.sizes.ratios import Ratio, entry, extremum, over_one_divisor, ratio
from stepwell.sizes.substitution import bound

N = size("n")
_NUMBERS = st.integers(-9, 9)
_RATIOS = st.builds(lambda a, b, d: ratio(N * a + b, d), _NUMBERS, _NUMBERS, _NUMBERS.filter(bool))


def _at(value: Ratio, n: int) -> Fraction:
    return Fraction(bound(value.numerator, {"n": n}), value.divisor)


@given(_RATIOS, _RATIOS, st.integers(0, 50))
def test_arithmetic_is_exact(left: Ratio, right: Ratio, n: int):
    a, b = _at(left, n), _at(right, n)
    assert (_at(left + right, n), _at(left - right, n), _at(left * right, n), _at(-left, n)) == (
        a + b,
        a - b,
        a * b,
        -a,
    )
    assert (bound(left.floor, {"n": n}), bound(left.ceil, {"n": n})) == (a.__floor__(), a.__ceil__())
    assert _at(extremum((left, right), True), n) == min(a, b) and _at(extremum((left, right), False), n) == max(a, b)
    (first, second), divisor = over_one_divisor((left, right))
    assert [Fraction(bound(item, {"n": n}), divisor) for item in (first, second)] == [a, b]


def test_equal_ratios_are_equal():
    assert ratio(N * 4 + 2, 6) == ratio(N * -2 - 1, -3) == Ratio(N * 2 + 1, 3)
    assert str(ratio(N, 2)) == "(n) / 2" and str(ratio(N * 2, 2)) == "n"
    assert entry(0.75) == Ratio(3, 4) and entry(0.75).number == 0.75 and entry(N).number is None


def test_a_float_holds_ratios_of_few_digits():
    with assuming({"n": (0, 1000)}):
        assert ratio(N, 8).is_exact_in(10) and not ratio(N, 8).is_exact_in(9)
        assert not ratio(N, 3).is_exact_in(24) and ratio(N, 3).is_within(10)
    assert not ratio(N, 2).is_exact_in(24), "nothing is known of n"


def test_negative_infinity_is_no_ratio():
    with pytest.raises(OverflowError):
        entry(float("-inf"))
