"""A draft model: a smaller model proposes the next tokens of a text (Leviathan et al., "Fast Inference from
Transformers via Speculative Decoding", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .text_states import TextStates

_LEAST_PROBABILITY = 0.4
"""Probability below which the draft model stops after its first token; the threshold of Hugging Face's transformers for
assistant models."""


class DraftModel:
    """A text as the draft model has read it.

    Attributes:
        most: maximum number of proposed tokens.
    """

    def __init__(self, pool: TextStates, context: int, count: int, most: int) -> None:
        """Starts without a text.

        Args:
            pool: a pool of the draft model.
            context: maximum number of tokens of its texts.
            count: number of the tokens that it knows.
            most: maximum number of proposed tokens.
        """
        self.most, self._context, self._count = most, context, count
        self._pool, self._paged = pool, pool.table.text()
        self._tokens: list[int] = []
        self._read: list[int] = []
        """The tokens whose keys and values are in the pool."""
        self._agreed = 0
        """Number of tokens that the text and the read ones are known to begin with."""

    def start(self, tokens: Sequence[int]) -> None:
        """Takes another text; what it has in common with the last one is not read again."""
        self._tokens, self._agreed = list(tokens), 0

    def add(self, tokens: Sequence[int]) -> None:
        """Adds tokens to the end of the text."""
        self._tokens += tokens

    def propose(self, most: int) -> list[int]:
        """Returns the most probable next tokens, at most `most`, while the model is sure of them.

        There are none if the text has no room in the context of the draft model, or has tokens that it does not know.
        """
        most = min(most, self._context - len(self._tokens))
        unread = self._unread()
        if most < 1 or max(unread) >= self._count:
            return []
        proposed: list[int] = []
        while len(proposed) < most:
            logits = self._pool.read(self._paged, unread)
            self._read += unread
            token = int(logits.argmax())
            if proposed and 1 / float(np.exp(logits - logits[token]).sum()) < _LEAST_PROBABILITY:
                break
            proposed.append(token)
            unread = [token]
        self._agreed = len(self._tokens)
        return proposed

    def _unread(self) -> list[int]:
        """Keeps what the text and the read tokens have in common; returns the tokens after it, at least the last."""
        common, most = self._agreed, min(len(self._read), len(self._tokens) - 1)
        while common < most and self._read[common] == self._tokens[common]:
            common += 1
        common = min(common, most)
        self._pool.table.truncate(self._paged, common)
        del self._read[common:]
        return self._tokens[common:]
