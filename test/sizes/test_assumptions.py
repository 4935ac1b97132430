"""Limits of sizes decide questions about them, and simplify expressions."""

from __future__ import annotations

import pytest
from stepwell.sizes.algebra import UndecidedError, bounds, size
from stepwell.sizes.assumptions import assuming, suppose_equal, suppositions
from stepwell.sizes.extrema import least
from stepwell.sizes.substitution import bound

N = size("n")


def test_sizes_are_natural_numbers() -> None:
    assert bounds(N, {}) == (0, None)
    assert N >= 0 and not N < 0
    with pytest.raises(UndecidedError, match="whether n < 8 depends on the sizes"):
        bool(N < 8)


def test_limits_decide_comparisons() -> None:
    with assuming({"n": (4, 7)}):
        assert N < 8 and N > 3 and N <= 7 and N >= 4
        assert N < 8 and N > 3
        with assuming({"n": (9, 9)}):
            assert N > 8
        assert N < 8
    with pytest.raises(UndecidedError):
        bool(N <= 7)


def test_limits_simplify_extrema() -> None:
    clipped = least((N, 512))
    assert bound(clipped, {}) == clipped != N
    with assuming({"n": (1, 300)}):
        assert bound(clipped, {}) == N


def test_a_size_is_no_number() -> None:
    with pytest.raises(UndecidedError, match="n is not a number"):
        range(N)
    with pytest.raises(UndecidedError, match=r"2 \* n is not a number"):
        int(N * 2)


def test_suppositions_are_collected() -> None:
    suppose_equal(N, 8)
    with suppositions() as outer:
        suppose_equal(N, 3)
        with suppositions() as inner:
            suppose_equal(N, 4)
    assert (outer, inner) == ([(N, 3)], [(N, 4)])
