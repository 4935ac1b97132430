"""Prompt lookup: the text so far proposes its next tokens, and one call of the model checks several of them.

Where the last tokens of a text occurred before, those that followed them are the proposal (Saxena, "Prompt Lookup
Decoding", 2023). No second model is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

_GRAMS = (3, 2, 1)
"""Numbers of last tokens that are looked up, the most telling first; as in Saxena's implementation."""

_REST, _MOST_REST = 16, 256
"""Numbers of steps by one token after proposals were found slower: at first, and at most after as many failed tries in
a row as double it. A text without repetition then costs little; both are choices."""

_KEPT = 0.9
"""Weight of the earlier steps in the measured speed: about the last ten count, as texts change their character."""


class TextIndex:
    """The tokens of a text, with the place of each short sequence of them.

    Attributes:
        tokens: the tokens.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
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


class Lookup:
    """Decides by measured times whether tokens are proposed, and counts them.

    Attributes:
        proposed: number of tokens proposed so far.
        accepted: number of those that the model chose too.
    """

    def __init__(self, most: int) -> None:
        """Starts without measurements.

        Args:
            most: maximum number of proposed tokens of a step; 0 for none.
        """
        self._most, self.proposed, self.accepted = most, 0, 0
        self._alone = 0.0  # seconds of a step by one token; 0 until one was measured
        self._tokens, self._seconds, self._resting, self._rest = 0.0, 0.0, 0, _REST

    def propose(self, text: TextIndex, most: int) -> list[int]:
        """Returns the proposed next tokens of a text, at most `most`.

        There are none until a step by one token was measured, and while proposals are slower than such steps.
        """
        if not self._alone or self._resting:
            return []
        return text.propose(min(most, self._most)) if min(most, self._most) > 0 else []

    def note(self, proposed: int, accepted: int, seconds: float) -> None:
        """Counts a step that read one known token and the proposed ones.

        Args:
            proposed: number of proposed tokens.
            accepted: number of those that were chosen; one more token was chosen after them.
            seconds: time of the step.
        """
        if not proposed:
            self._alone = seconds if not self._alone else _KEPT * self._alone + (1 - _KEPT) * seconds
            self._resting = max(0, self._resting - 1)
            return
        self.proposed += proposed
        self.accepted += accepted
        self._tokens = _KEPT * self._tokens + accepted + 1
        self._seconds = _KEPT * self._seconds + seconds
        if self._seconds > self._tokens * self._alone:
            self._resting, self._rest = self._rest, min(2 * self._rest, _MOST_REST)
        else:
            self._rest = _REST
