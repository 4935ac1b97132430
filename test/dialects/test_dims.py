"""Symbolic dimensions against plain arithmetic."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepwell.dialects import dims

N, M = dims.symbol("n"), dims.symbol("m")


@st.composite
def expressions(draw, depth: int = 3):
    """A symbolic expression, and the same as a Python function of n and m."""
    if depth == 0:
        number = draw(st.integers(0, 5))
        return draw(st.sampled_from([(N, lambda n, m: n), (M, lambda n, m: m), (number, lambda n, m: number)]))
    lhs, left = draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "ceildiv", "mod"]))
    if kind in ("floordiv", "ceildiv", "mod"):
        by = draw(st.integers(1, 4))
        function = {"floordiv": operator.floordiv, "ceildiv": dims.ceil_div, "mod": operator.mod}[kind]
        return function(lhs, by), lambda n, m: function(left(n, m), by)
    rhs, right = draw(expressions(depth - 1))
    function = getattr(operator, kind)
    return function(lhs, rhs), lambda n, m: function(left(n, m), right(n, m))


@pytest.mark.sweep
@given(expression=expressions(), n=st.integers(1, 9), m=st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_bound_expressions_are_plain_arithmetic(expression, n, m):
    symbolic, plain = expression
    assert dims.bind(symbolic, {"n": n, "m": m}) == plain(n, m)


def test_equal_expressions_are_equal():
    assert dims.symbol("n") == N
    assert N + 1 + M == M + N + 1
    assert N - N == 0
    assert N * 2 // 2 == N
    assert N // N == 1
    assert N != M
    assert len({N + 1, 1 + N, M}) == 2
    assert dims.unknown() != dims.unknown()


def test_text_is_readable():
    assert str(N * 2 + 1) == "2 * n + 1"
    assert dims.text(dims.unknown()) == "?"
    assert dims.text(7) == "7"


def test_binding_some_symbols_leaves_the_others():
    assert dims.bind(N + M, {"n": 3}) == M + 3
    assert dims.is_static((1, 2))
    assert not dims.is_static((1, N))
    assert dims.product((2, N, 3)) == N * 6
    assert dims.product(()) == 1
