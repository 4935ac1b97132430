"""Wording of messages."""

from __future__ import annotations

import pytest
from stepwell.support.wording import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1234.5, "1234 s"),
        (1.0, "1 s"),
        (0.99999, "1000 ms"),
        (0.0123456, "12.3 ms"),
        (1.5e-6, "1.5 us"),
        (2e-8, "0.02 us"),
        (0.0, "0 us"),
    ],
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
