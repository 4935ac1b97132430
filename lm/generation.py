"""A text in progress: the tokens that are chosen from logits, the text that they make, and where it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from .grammar import GrammarState
from .request import FinishReason, Piece, TokenChoice
from .sampling import SamplingOptions
from .token_rules import TokenRules
from .tokenizer import TextTokenizer


class Generation:
    """A text in progress.

    Attributes:
        tokens: the tokens chosen so far; an end token is not among them.
        finish: why the text has ended; None while it goes on.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer,
        sampling: SamplingOptions,
        most: int,
        stop: Sequence[str] = (),
        logprobs: int | None = None,
        rules: TokenRules | None = None,
    ) -> None:
        """Starts with an empty text.

        Args:
            tokenizer: the model's.
            sampling: how tokens are chosen.
            most: maximum number of tokens, at least 1.
            stop: texts that end the text, and are not part of it.
            logprobs: number of most probable tokens to report for each token; None for no log probabilities.
            rules: the tokens that the model does not choose; None for none.

        Raises:
            InputError: the grammar is wrong.
        """
        self._tokenizer, self._sampling, self._most, self._logprobs = tokenizer, sampling, most, logprobs
        self._random, self._text, self._ending = (
            np.random.default_rng(sampling.seed),
            tokenizer.stepwise(),
            _StopText(stop),
        )
        self._rules = rules or TokenRules()
        self._grammar = GrammarState(tokenizer.for_grammars, sampling.grammar) if sampling.grammar else None
        self._counts: Counter[int] = Counter()
        self.tokens: list[int] = []
        self.finish: FinishReason | None = None

    @property
    def left(self) -> int:
        """Maximum number of further tokens."""
        return self._most - len(self.tokens)

    def add(self, logits: np.ndarray) -> Piece:
        """Chooses the next token.

        Args:
            logits: those after the text so far, f32[vocabulary].

        Returns:
            The text that can be passed on.
        """
        possible = self._rules.masked(logits, is_first=not self.tokens)
        if self._grammar is not None:
            possible = self._grammar.masked(possible)
        token = self._sampling.choose(possible, self._random, self._counts)
        if self._grammar is not None:
            self._grammar.add(token)
        if token in self._tokenizer.ends:
            self.finish = "stop"
            return Piece(self._ending.rest)
        self.tokens.append(token)
        self._counts[token] += 1
        text = self._ending.add(self._text.add(token))
        choices = () if self._logprobs is None else (self._choice(token, logits, self._logprobs),)
        if self._ending.is_found:
            self.finish = "stop"
        elif len(self.tokens) == self._most:
            self.finish = "length"
            text += self._ending.rest
        return Piece(text, choices)

    def _choice(self, token: int, logits: np.ndarray, most: int) -> TokenChoice:
        wide = logits.astype(np.float64)
        shifted = wide - wide.max()
        logs = shifted - np.log(np.exp(shifted).sum())
        first = np.argsort(-logs, kind="stable")[:most]
        top = tuple((int(item), self._tokenizer.decode([int(item)]), float(logs[item])) for item in first)
        return TokenChoice(token, self._tokenizer.decode([token]), float(logs[token]), top)


class _StopText:
    """Text that ends at a stop text. Characters that may be the beginning of one are held back.

    Attributes:
        is_found: whether a stop text was found.
        rest: the characters held back.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [item for item in stop if item]
        self.is_found, self.rest = False, ""

    def add(self, text: str) -> str:
        """Adds text; returns the text that may be passed on."""
        whole = self.rest + text
        ends = [place for item in self._stop if (place := whole.find(item)) >= 0]
        if ends:
            self.is_found, self.rest = True, ""
            return whole[: min(ends)]
        kept = max((_overlap(whole, item) for item in self._stop), default=0)
        self.rest = whole[len(whole) - kept :]
        return whole[: len(whole) - kept]


def _overlap(text: str, other: str) -> int:
    """Returns the number of characters at the end of a text with which another text begins."""
    most = min(len(text), len(other) - 1)
    return next((count for count in range(most, 0, -1) if text.endswith(other[:count])), 0)
