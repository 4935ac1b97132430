"""A request to continue a text, and what it receives as the text grows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from .sampling import SamplingOptions

FinishReason: TypeAlias = Literal["stop", "length", "cancelled", "error"]
"""Reasons why a text ended: an end token or a stop text, its maximum length, the caller, or a failure."""

Source: TypeAlias = str | Sequence[int] | np.ndarray
"""The subject of a text: another text, its tokens, or log-mel spectra f32[bins, frames]."""


@dataclass(frozen=True)
class TokenChoice:
    """A token that was chosen, with the logarithms of probabilities before sampling.

    Attributes:
        token: its number.
        text: its text alone; parts of characters are replaced.
        logprob: the logarithm of its probability.
        top: the most probable tokens at this position as (token, text, logprob), in descending order.
    """

    token: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()


@dataclass(frozen=True)
class Piece:
    """Text that one step of generation completed; it may be empty, as when a character is incomplete.

    Attributes:
        text: the text.
        choices: the chosen tokens of the text, if the request asked for log probabilities.
    """

    text: str
    choices: tuple[TokenChoice, ...] = ()


@dataclass(frozen=True)
class End:
    """The end of a text.

    Attributes:
        reason: why it ended.
        prompt_tokens: number of tokens of the prompt.
        cached_tokens: number of those whose keys and values were known from earlier texts.
        tokens: number of generated tokens.
        error: the failure, if that is the reason.
    """

    reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    tokens: int
    error: str = ""


@dataclass(eq=False)
class Request:
    """A request to continue a text.

    Attributes:
        tokens: the tokens of the prompt, at least one.
        deliver: receives each `Piece` and then the `End`, on the thread of the engine; it must return at once.
        sampling: how tokens are chosen.
        most: maximum number of tokens; None for as many as the context holds.
        stop: texts that end the text, and are not part of it.
        logprobs: number of most probable tokens to report for each token; None for no log probabilities.
        source: what the text is about, for an encoder-decoder; None for other models.
    """

    tokens: Sequence[int]
    deliver: Callable[[Piece | End], None]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    most: int | None = None
    stop: Sequence[str] = ()
    logprobs: int | None = None
    source: Source | None = None

    def __post_init__(self) -> None:
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Asks the engine to end the text at its next step; may be called by any thread, at any time."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """True if `cancel` was called."""
        return self._cancelled.is_set()
