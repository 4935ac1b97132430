"""Choice of the next token from logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..support.errors import OptionError

_MOST_PENALTY = 2.0
"""As in OpenAI's interface."""


@dataclass(frozen=True)
class SamplingOptions:
    """Rule by which the next token is chosen.

    Attributes:
        temperature: divisor of the logits; 0 chooses the most probable token.
        top_k: number of most probable tokens that are kept; 0 keeps all.
        top_p: tokens are kept, from the most probable on, until their probabilities sum up to this (Holtzman et al.
            2020).
        min_p: tokens are kept whose probability is at least this fraction of the greatest one (Nguyen et al. 2024).
        presence_penalty: subtracted from the logit of a token that the text has already (not counting the prompt).
        frequency_penalty: the same, for each time that the text has it.
        grammar: grammar of the text: `json_schema(...)`, `regular_expression(...)`, or one in the language of Lark
            (https://github.com/guidance-ai/llguidance); "" for none.
        seed: the same seed gives the same choices; None for another one each time.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    grammar: str = ""
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise OptionError(f"temperature is {self.temperature!r}, and must be at least 0")
        if self.top_k < 0:
            raise OptionError(f"top_k is {self.top_k!r}, and must be at least 0")
        for name in ("top_p", "min_p"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"{name} is {getattr(self, name)!r}, and must be from 0 to 1")
        for name in ("presence_penalty", "frequency_penalty"):
            if not -_MOST_PENALTY <= getattr(self, name) <= _MOST_PENALTY:
                raise OptionError(f"{name} is {getattr(self, name)!r}, and must be from -2 to 2")

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Returns the probability of each token, f64; the temperature is not 0."""
        scaled = logits.astype(np.float64) / self.temperature
        powers = np.exp(scaled - scaled.max())
        order = np.argsort(-powers, kind="stable")
        sorted_powers = powers[order] / powers.sum()
        kept = sorted_powers >= self.min_p * sorted_powers[0]
        if self.top_k:
            kept[self.top_k :] = False
        kept &= np.cumsum(sorted_powers) - sorted_powers < self.top_p
        kept[0] = True
        found = np.zeros_like(powers)
        found[order[kept]] = sorted_powers[kept]
        return found / found.sum()

    def choose(self, logits: np.ndarray, random: np.random.Generator, counts: Mapping[int, int]) -> int:
        """Returns the number of the next token.

        Args:
            logits: those after the text so far, f32.
            random: the generator of the text.
            counts: how often the text has each of its tokens.
        """
        if counts and (self.presence_penalty or self.frequency_penalty):
            logits = logits.copy()
            for token, count in counts.items():
                logits[token] -= self.presence_penalty + count * self.frequency_penalty
        if self.temperature == 0:
            return int(logits.argmax())
        return int(random.choice(len(logits), p=self.probabilities(logits)))
