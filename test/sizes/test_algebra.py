"""The algebra of sizes: every simplification is exact, and equal expressions are equal."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stepwell.sizes.algebra import Dimension, bounds, ceil_div, floor_div, remainder, size
from stepwell.sizes.extrema import greatest, least
from stepwell.sizes.substitution import bound, names_of

N, M = size("n"), size("m")


@st.composite
def _pairs(draw: st.DrawFn, depth: int = 3) -> tuple[Dimension, object]:
    """An expression, and a function that computes its value in Python."""
    kind = draw(st.sampled_from(["number", "n", "m"] if depth == 0 else ["number", "n", "m", *"+-*/%^_v"]))
    if kind == "number":
        number = draw(st.integers(-5, 9))
        return number, lambda n, m: number
    if kind in ("n", "m"):
        return (N if kind == "n" else M), (lambda n, m: n if kind == "n" else m)
    left, first = draw(_pairs(depth - 1))
    right, second = draw(_pairs(depth - 1))
    if kind in "/%^":
        divisor = draw(st.sampled_from([1, 2, 3, 4, 6, "n", "m"]))
        right = {"n": N + 1, "m": M + 1}.get(divisor, divisor)  # type: ignore[call-overload]
        second = lambda n, m: {"n": n + 1, "m": m + 1}.get(divisor, divisor)  # noqa: E731
    made = {
        "+": lambda: (left + right, lambda a, b: a + b),
        "-": lambda: (left - right, lambda a, b: a - b),
        "*": lambda: (left * right, lambda a, b: a * b),
        "/": lambda: (floor_div(left, right), lambda a, b: a // b),
        "^": lambda: (ceil_div(left, right), lambda a, b: -(-a // b)),
        "%": lambda: (remainder(left, right), lambda a, b: a % b),
        "_": lambda: (least((left, right)), min),
        "v": lambda: (greatest((left, right)), max),
    }
    found, function = made[kind]()
    return found, lambda n, m: function(first(n, m), second(n, m))


@given(_pairs(), st.integers(0, 40), st.integers(0, 40))
def test_values_are_those_of_whole_numbers(pair, n, m) -> None:
    expression, value = pair
    assert bound(expression, {"n": n, "m": m}) == value(n, m)


@given(_pairs(), st.integers(0, 20), st.integers(0, 20))
def test_values_are_within_bounds(pair, n, m) -> None:
    low, high = bounds(pair[0], {"n": (0, 20), "m": (0, 20)})
    value = pair[1](n, m)
    assert (low is None or low <= value) and (high is None or value <= high)
    low, high = bounds(pair[0], {})
    assert (low is None or low <= value) and (high is None or value <= high)


@given(_pairs(2), _pairs(2), st.sampled_from([1, 2, 3, 8]))
def test_order_and_grouping_do_not_matter(one, other, factor) -> None:
    left, right = one[0], other[0]
    assert left + right == right + left
    assert left * right == right * left
    assert (left + right) * factor == left * factor + right * factor
    assert left - left == 0
    assert floor_div(left * factor + right, factor) == left + floor_div(right, factor)
    assert remainder(left * factor + right, factor) == remainder(right, factor)
    assert least((left, right)) == least((right, left, left))


@given(*[st.integers(-9, 9)] * 3, *[st.integers(1, 9)] * 2)
def test_quotients_of_quotients_are_quotients(of_n, of_m, offset, first, second) -> None:
    linear = of_n * N + of_m * M + offset
    assert floor_div(floor_div(linear, first), second) == floor_div(linear, first * second)
    assert floor_div(floor_div(linear, first) + N, second) == floor_div(linear + first * N, first * second)


@given(_pairs(), st.integers(0, 20), st.integers(0, 20))
def test_names_are_those_an_expression_depends_on(pair, n, m) -> None:
    assume("n" not in names_of(pair[0]))
    assert pair[1](n, m) == pair[1](n + 1, m)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (N + M * 2 - 1, "2 * m + n - 1"),
        ((N + 1) // 2, "(n + 1) // 2"),
        ((N - 3) // 2 + 1, "(n - 1) // 2"),
        (N * M, "m * n"),
        (N // 2 // 2, "n // 4"),
        ((4 * N + 6) // 2, "2 * n + 3"),
        ((N * M) // M, "n"),
        (N % 4 + 8, "(n % 4) + 8"),
        (-N + 3, "-1 * n + 3"),
        (least((N, 512)), "min(512, n)"),
        (greatest((N, 0)), "n"),
        (greatest((N - 5, 0)), "max(0, n - 5)"),
        (((N - 1) // 2 + 1) // 2, "(n + 1) // 4"),
    ],
)
def test_texts(expression: Dimension, text: str) -> None:
    assert str(expression) == text


def test_a_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        N // 0
    with pytest.raises(ZeroDivisionError):
        N % 0


def test_bounds_follow_terms_that_depend_on_each_other() -> None:
    n, ranges = size("n"), {"n": (1, 9)}
    assert bounds(n - n // 2, ranges) == (1, 5)
    assert bounds(ceil_div(n, 3) * 3 - n, ranges) == (0, 2)
    assert bounds(n // 2 - n // 3, ranges) == (0, 2)
    assert bounds(n // 2 + n, ranges) == (1, 13)


def test_a_size_less_its_remainder_is_never_negative():
    assert bounds(N - N % 4, {"n": (1, 64)}) == (0, 64)
    assert bounds(M + N - N % 4, {"n": (1, 64), "m": (2, 3)})[0] == 2
    assert bounds(M - N % 4, {"n": (1, 64), "m": (2, 3)})[0] == -1
