"""`TextStates`: what a model keeps of texts that grow, whatever form it has."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..machines.matrix_units import ROWS
from .pages import PagedText, PageTable

CHUNK = 512
"""Maximum number of tokens of a prompt that one call takes; scratch memory grows with it."""


@dataclass(frozen=True)
class SavedText:
    """The state of a text outside of the pool.

    Attributes:
        length: number of its tokens.
        rows: for each array of the pool, the rows of these tokens.
    """

    length: int
    rows: list[np.ndarray]


def chunk_of(unread: int, most: int) -> int:
    """Returns how many of some tokens a call reads.

    A single token, or few, are not left for the last call if it can be avoided: the programs for one token and for few
    may round in another way than that for many, so results would depend on where a prompt is cut.
    """
    least = ROWS + 1 if most > 2 * ROWS else min(2, most - 1)
    return unread - least if most < unread < most + least else min(unread, most)


class TextStates(abc.ABC):
    """The states of texts of a model, in the pages of one pool.

    A page holds keys and values of some tokens, or, if `table.is_whole`, the state of a text of any length.

    Attributes:
        table: the pages of the texts.
        nbytes: bytes of all pages. The system provides memory for those that were in use at some time.
    """

    table: PageTable
    nbytes: int

    @abc.abstractmethod
    def step(self, texts: Sequence[PagedText], tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """Adds new tokens, equally many to each text.

        Args:
            texts: the texts; several of them take one token each.
            tokens: the new tokens of each text, at most `CHUNK`.

        Returns:
            The logits after the last token of each text, f32[texts, vocabulary].

        Raises:
            OutOfPagesError: too few pages are free; no text has new tokens.
        """

    @abc.abstractmethod
    def check(self, text: PagedText, tokens: Sequence[int]) -> np.ndarray:
        """Adds two or more tokens to one text, in one call of the program for them.

        Returns:
            The logits after each token, f32[tokens, vocabulary].

        Raises:
            OutOfPagesError: too few pages are free.
        """

    @abc.abstractmethod
    def reserve(self, text: PagedText, length: int) -> None:
        """Gives a text room for tokens up to `length`.

        Raises:
            OutOfPagesError: too few pages are free; nothing has changed.
        """

    @abc.abstractmethod
    def save(self, text: PagedText) -> SavedText:
        """Returns a copy of the state of a text."""

    @abc.abstractmethod
    def restore(self, text: PagedText, saved: SavedText) -> None:
        """Gives a state to a text without tokens.

        Raises:
            OutOfPagesError: too few pages are free.
        """

    def read(self, text: PagedText, tokens: Sequence[int]) -> np.ndarray:
        """Adds one or more tokens to one text, in chunks; returns the logits after the last one, f32[vocabulary].

        Raises:
            OutOfPagesError: too few pages are free.
        """
        logits = np.empty(0)
        start = 0
        while start < len(tokens):
            count = chunk_of(len(tokens) - start, CHUNK)
            logits = self.step([text], [tokens[start : start + count]])[0]
            start += count
        return logits
