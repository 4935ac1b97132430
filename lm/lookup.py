"""Prompt lookup: the text so far proposes its next tokens.

Where the last tokens of a text occurred before, those that followed them are the proposal (Saxena, "Prompt Lookup
Decoding", 2023). No second model is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

_GRAMS = (3, 2, 1)
"""Numbers of last tokens that are looked up, the most telling first; as in Saxena's implementation."""


class TextLookup:
    """The tokens of a text, with the place of each short sequence of them.

    Attributes:
        most: maximum number of proposed tokens.
        tokens: the tokens.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.start([])

    def start(self, tokens: Sequence[int]) -> None:
        """Takes another text."""
        self.tokens: list[int] = []
        self._following: dict[tuple[int, ...], int] = {}
        self.add(tokens)

    def add(self, tokens: Sequence[int]) -> None:
        """Adds tokens to the end of the text."""
        for token in tokens:
            place = len(self.tokens)
            for count in _GRAMS:
                if count <= place:
                    self._following[tuple(self.tokens[place - count :])] = place
            self.tokens.append(token)

    def propose(self, most: int) -> list[int]:
        """Returns the tokens that followed the last ones before, `most` of them; none if there is no such place.

        If the place is nearer to the end than that, what is between them is repeated.
        """
        for count in _GRAMS:
            place = self._following.get(tuple(self.tokens[-count:])) if count <= len(self.tokens) else None
            if place is not None:
                found = self.tokens[place : place + most]
                return (found * -(-most // len(found)))[:most]
        return []
