"""Intervals contain the true ratio, and disturbed turns do not move them."""

from __future__ import annotations

import math

import numpy as np
from stepwell.tuning.intervals import LEAST, GainRange


def test_disturbed_turns_do_not_move_the_ratio() -> None:
    random = np.random.default_rng(0)
    default, candidate = 1.2 + 0.01 * random.random(24), 1.0 + 0.01 * random.random(24)
    default[::2] *= 5
    candidate[1::2] *= 9
    found = GainRange.of(list(default), list(candidate))
    assert 1.17 < found.low <= found.value <= found.high < 1.23


def test_equal_times_are_rarely_told_apart() -> None:
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(100):
        times = 1 + 0.1 * random.standard_exponential((2, 20))
        found = GainRange.of(list(times[0]), list(times[1]))
        wrong += not found.low <= 1.0 <= found.high
    assert wrong <= 12


def test_too_few_turns_decide_nothing() -> None:
    found = GainRange.of([2.0] * (LEAST - 1), [1.0] * (LEAST - 1))
    assert (found.value, found.low, found.high) == (2.0, 0.0, math.inf)
    assert GainRange.of([2.0] * LEAST, [1.0] * LEAST).low == 2.0
    assert GainRange.of([], []).count == 0
