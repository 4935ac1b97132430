"""Tokens that a model never chooses, or not as the first ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TokenRules:
    """The tokens that are not chosen.

    Attributes:
        never: tokens that are never chosen.
        not_first: tokens that are not the first ones to be chosen.
    """

    never: list[int] = field(default_factory=list)
    not_first: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> TokenRules:
        """Reads the settings of a Hugging Face folder."""
        names = ("suppress_tokens", "begin_suppress_tokens")
        return cls(*([item for item in settings.get(name) or () if item >= 0] for name in names))

    def masked(self, logits: np.ndarray, is_first: bool) -> np.ndarray:
        """Returns logits without the tokens that must not be chosen."""
        excluded = [*self.never, *(self.not_first if is_first else ())]
        if not excluded:
            return logits
        logits = logits.copy()
        logits[excluded] = -np.inf
        return logits
