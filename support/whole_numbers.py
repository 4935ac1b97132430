"""Whole numbers in texts from users and from files."""

from __future__ import annotations

MOST_DIGITS = 19
"""Number of decimal digits of the largest signed 64-bit integer."""


def is_whole(text: str) -> bool:
    """Returns whether a text is a whole number of 0 or more, of 63 bits."""
    return text.isdecimal() and len(text) <= MOST_DIGITS and int(text) < 2**63
