"""Prompt lookup: what a text proposes."""

from __future__ import annotations

import pytest
from stepwell.lm.lookup import TextLookup


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ([1, 2, 3, 4, 9, 1, 2, 3], [4, 9, 1]),  # after the last three tokens
        ([1, 2, 5, 6, 7, 3, 2, 8, 1, 2], [5, 6, 7]),  # two tokens tell more than the later one
        ([1, 7, 1, 8, 9, 4, 1], [8, 9, 4]),  # the last of two places
        ([4, 5, 6, 6], [6, 6, 6]),  # repeated
        ([1, 2, 1, 2], [1, 2, 1]),
        ([1, 2, 3], []),
        ([1], []),
        ([], []),
    ],
)
def test_proposals_follow_the_last_tokens(text: list[int], wanted: list[int]):
    whole, grown = TextLookup(3), TextLookup(3)
    whole.start([7, 7, 7])
    whole.start(text)
    assert whole.propose(3) == wanted
    grown.start(text[:2])
    grown.add(text[2:])
    assert grown.propose(3) == wanted
