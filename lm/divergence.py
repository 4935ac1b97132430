"""Divergence of the probabilities of a model from those of another one, such as its original in 32 bits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..driver.api import compile as compile_model
from ..driver.options import Options
from ..driver.sources.paged import PagedSource
from ..support.errors import InputError
from .model_file import read_model
from .page_sizes import PAGE_SIZE

if TYPE_CHECKING:
    from ..driver.sources.paged import CacheForm

_WINDOW = 256
"""Number of tokens that each call reads from an empty state."""


@dataclass(frozen=True)
class Divergence:
    """The distance of two models on a text, over all of its tokens with a next one.

    Attributes:
        tokens: number of these tokens.
        mean: mean Kullback-Leibler divergence from the reference's probabilities, in nats.
        high: the divergence that one token in a thousand exceeds.
        greatest: the greatest divergence.
        same_top: part of the tokens after which both models have the same most probable token.
        perplexity: perplexity of the model.
        reference_perplexity: perplexity of the reference.
    """

    tokens: int
    mean: float
    high: float
    greatest: float
    same_top: float
    perplexity: float
    reference_perplexity: float

    def figures(self) -> list[tuple[str, str]]:
        """Returns names and values, for tables."""
        return [
            ("tokens", f"{self.tokens:,}"),
            ("divergence, mean", f"{self.mean:.5f}"),
            ("divergence, one token in 1,000 exceeds", f"{self.high:.5f}"),
            ("divergence, greatest", f"{self.greatest:.5f}"),
            ("same most probable token", f"{100 * self.same_top:.2f} %"),
            ("perplexity", f"{self.perplexity:.4f}"),
            ("perplexity / that of the original", f"{self.perplexity / self.reference_perplexity:.4f}"),
        ]


def measure_divergence(
    path: str | os.PathLike[str],
    reference: str | os.PathLike[str],
    text: str | Sequence[int],
    threads: int | None = None,
    *,
    cache: CacheForm = "float",
) -> Divergence:
    """Compares a model with a reference.

    Args:
        path: the model, a GGUF file or a Hugging Face folder.
        reference: the other one, with the same tokens.
        text: the text, or its tokens; windows of 256 tokens are read apart from each other.
        threads: number of threads of a call; by default one for each core.
        cache: elements of keys and values of the model, "float", "int8" or "int4"; those of the reference are floats.

    Raises:
        ModelError: one of the models is damaged or not supported.
        InputError: the text is too short, or the models have different numbers of tokens.
    """
    tokens = read_model(Path(path)).tokenizer.encode(text) if isinstance(text, str) else list(text)
    if len(tokens) < 2:
        raise InputError("the text has less than two tokens")
    pairs = zip(_logits(path, tokens, threads, cache), _logits(reference, tokens, threads, "float"), strict=True)
    distances: list[np.ndarray] = []
    losses: list[tuple[np.ndarray, np.ndarray]] = []
    same: list[np.ndarray] = []
    for (start, logits), (_, wanted) in pairs:
        if logits.shape != wanted.shape:
            raise InputError(f"the models have {logits.shape[1]} and {wanted.shape[1]} tokens, and must have the same")
        known = tokens[start + 1 : start + len(logits) + 1]
        made, right = (_logarithms(item[: len(known)]) for item in (logits, wanted))
        distances.append((np.exp(right) * (right - made)).sum(-1))
        losses.append((made[np.arange(len(known)), known], right[np.arange(len(known)), known]))
        same.append(made.argmax(-1) == right.argmax(-1))
    found = np.maximum(np.concatenate(distances), 0)  # below 0 by rounding only
    own, other = (np.exp(-np.concatenate(items).mean()) for items in zip(*losses, strict=True))
    high = float(np.quantile(found, 0.999))
    agreement = float(np.concatenate(same).mean())
    return Divergence(len(found), float(found.mean()), high, float(found.max()), agreement, float(own), float(other))


def _logits(
    path: str | os.PathLike[str], tokens: Sequence[int], threads: int | None, cache: CacheForm
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the position of the first token and the logits of each window of a text."""
    path = Path(path)
    stored = read_model(path)
    window = min(_WINDOW, len(tokens), stored.context)
    sizes = {"batch": 1, "length": (1, window), "past": (0, window), "outputs": (1, window)}
    pages = -(-window // PAGE_SIZE)
    source = PagedSource.of(stored.source, PAGE_SIZE, pages, pages, cache)
    model = compile_model(source, threads=threads, options=Options(dims=sizes)).pooled()
    empty = {"starts": np.array([0]), "page_table": np.arange(pages)[None], "past": np.empty((0, 0), np.int8)}
    for start in range(0, len(tokens) - 1, window):
        part = np.asarray(tokens[start : start + window])
        yield start, model(input_ids=part[None], selected=np.arange(len(part)), **empty)[0]


def _logarithms(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
