"""Whole numbers in texts from users and from files."""

from __future__ import annotations

MOST_DIGITS = 19
"""Number of decimal digits of the largest 64-bit integer."""


def is_whole(text: str) -> bool:
    """Returns whether a text is a whole number of 0 or more, with at most `MOST_DIGITS` digits."""
    return text.isdecimal() and len(text) <= MOST_DIGITS
