"""Proposals of the next tokens of a text, which one call of the model checks (speculative decoding).

Weights are read once for all tokens of a call, so that checking several tokens takes little more time than computing
one (Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from .generation import Generation
from .pages import PagedText
from .text_states import TextStates

_REST, _MOST_REST = 16, 256
"""Numbers of steps by one token after proposals were found slower: at first, and at most after as many failed tries in
a row as double it. A text without repetition then costs little; both are choices."""

_KEPT = 0.9
"""Weight of the earlier steps in the measured speed: about the last ten count, as texts change their character."""

_COLD = 3
"""Number of first steps whose times are left out: they load code and touch new memory. The third step by one token of a
decoder of 16 layers still took half as long again as later ones."""


class Proposer(Protocol):
    """A source of proposals for one text.

    Attributes:
        most: maximum number of proposed tokens.
    """

    most: int

    def start(self, tokens: Sequence[int]) -> None:
        """Takes another text."""
        ...

    def add(self, tokens: Sequence[int]) -> None:
        """Adds tokens to the end of the text."""
        ...

    def propose(self, most: int) -> list[int]:
        """Returns the proposed next tokens, at most `most`, which is positive."""
        ...


class _Trial:
    """A proposer with its measured speed.

    Attributes:
        is_cold: whether no step was noted. The first one loads code and touches new memory, so its time is left out.
    """

    def __init__(self, proposer: Proposer) -> None:
        self.proposer = proposer
        self.tokens, self.seconds, self.resting, self.rest = 0.0, 0.0, 0, _REST
        self.is_cold = True

    def note(self, tokens: int, seconds: float, alone: float) -> None:
        """Counts a step with a proposal; one that loses against steps by one token of `alone` seconds starts a rest."""
        if self.is_cold:
            self.is_cold = False
            return
        self.tokens = _KEPT * self.tokens + tokens
        self.seconds = _KEPT * self.seconds + seconds
        if self.seconds > self.tokens * alone:
            self.resting, self.rest = self.rest, min(2 * self.rest, _MOST_REST)
        else:
            self.rest = _REST


class Proposals:
    """Decides by measured times which proposer is asked for the next tokens of a text, and counts them.

    Attributes:
        most: maximum number of proposed tokens of a step.
        tokens: the text.
        proposed: number of tokens proposed so far.
        accepted: number of those that the model chose too.
    """

    def __init__(self, proposers: Sequence[Proposer]) -> None:
        """Starts with an empty text and without measurements.

        Args:
            proposers: the first one that has a proposal, and is not found slower than steps by one token, is taken.
        """
        self._trials = [_Trial(item) for item in proposers]
        self._asked: _Trial | None = None
        self._alone, self._cold = 0.0, _COLD  # seconds of a step by one token; 0 until one was measured warm
        self.most = max((item.most for item in proposers), default=0)
        self.tokens: list[int] = []
        self.proposed, self.accepted = 0, 0

    def start(self, tokens: Sequence[int]) -> None:
        """Takes another text."""
        self.tokens = list(tokens)
        for trial in self._trials:
            trial.proposer.start(tokens)

    def add(self, tokens: Sequence[int]) -> None:
        """Adds tokens to the end of the text."""
        self.tokens += tokens
        for trial in self._trials:
            trial.proposer.add(tokens)

    def propose(self, most: int) -> list[int]:
        """Returns the proposed next tokens of the text, at most `most`.

        There are none until some steps by one token were measured, and while proposals are slower than such steps.
        """
        for trial in self._trials if self._alone else ():
            count = min(most, trial.proposer.most)
            found = trial.proposer.propose(count) if count > 0 and not trial.resting else []
            if found:
                self._asked = trial
                return found
        return []

    def note(self, proposed: int, accepted: int, seconds: float) -> None:
        """Counts a step that read one known token and the proposed ones.

        Args:
            proposed: number of proposed tokens.
            accepted: number of those that were chosen; one more token was chosen after them.
            seconds: time of the step.
        """
        if not proposed:
            if self._cold:
                self._cold -= 1
            else:
                self._alone = seconds if not self._alone else _KEPT * self._alone + (1 - _KEPT) * seconds
            for trial in self._trials:
                trial.resting = max(0, trial.resting - 1)
            return
        assert self._asked is not None
        self.proposed += proposed
        self.accepted += accepted
        self._asked.note(accepted + 1, seconds, self._alone)


def advance(
    pool: TextStates,
    paged: PagedText,
    generation: Generation,
    proposals: Proposals,
    choose: Callable[[np.ndarray], bool],
    most: int,
) -> None:
    """Reads the last token of a text and the proposed next ones, and chooses the tokens after them.

    Each token is chosen as without proposals. What was read after a token that is not the proposed one is dropped.

    Args:
        pool: the pool with the text.
        paged: the pages of the text; all tokens but the last are in them.
        generation: its generated part.
        proposals: proposals for the text, of which they have all tokens.
        choose: adds a token to the generation, given the logits f32[vocabulary]; returns whether the text goes on.
        most: maximum number of proposed tokens.

    Raises:
        OutOfPagesError: too few pages are free.
    """
    length, known, last = paged.length, len(generation.tokens), proposals.tokens[-1]
    start = time.perf_counter()
    proposed = proposals.propose(min(most, generation.left - 1))
    rows = pool.check(paged, [last, *proposed]) if proposed else pool.read(paged, [last])[None]
    seconds, accepted = time.perf_counter() - start, 0
    goes_on = choose(rows[0])
    for token, row in zip(proposed, rows[1:], strict=True):
        if not goes_on or generation.tokens[-1] != token:
            break
        accepted += 1
        goes_on = choose(row)
    pool.table.truncate(paged, length + 1 + accepted)
    proposals.add(generation.tokens[known:])
    proposals.note(len(proposed), accepted, seconds)
