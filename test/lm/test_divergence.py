"""The divergence of two models is that of their logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stepwell.lm import Divergence, LanguageModel, load, measure_divergence
from stepwell.support.errors import InputError

from .decoders import SMALL, TOKENIZER, GgufConfig, write_decoder

TEXT = "The well has ninety steps, and each is narrower than the one above it. " * 2


def _written(folder: Path, name: str, kind: str, vocabulary: int = 264) -> Path:
    path = folder / f"{name}.gguf"
    write_decoder(path, GgufConfig(kind=kind, vocabulary=vocabulary, settings=TOKENIZER, **SMALL))
    return path


@pytest.mark.sweep
def test_divergence_of_fewer_bits(tmp_path: Path) -> None:
    full, short = _written(tmp_path, "full", "F32"), _written(tmp_path, "short", "Q4_0")
    found = measure_divergence(short, full, TEXT, threads=1)
    tokens = load(full, context=64, threads=1).tokenizer.encode(TEXT)
    # The last token of each window has a next one too.
    assert found.tokens == len(tokens) - 1
    assert 0 < found.mean <= found.high <= found.greatest
    assert 0 < found.same_top < 1
    alike = measure_divergence(full, full, tokens, threads=1)
    perplexity = pytest.approx(found.reference_perplexity)
    assert alike == Divergence(found.tokens, 0, 0, 0, 1, perplexity, perplexity)
    model = load(full, context=64, threads=1)
    pair = measure_divergence(short, full, tokens[:6], threads=1)
    losses = [_loss(model, tokens[:count], tokens[count]) for count in range(1, 6)]
    assert pair.reference_perplexity == pytest.approx(np.exp(np.mean(losses)), rel=1e-4)


def _loss(model: LanguageModel, tokens: list[int], following: int) -> float:
    pool = model.pool()
    logits = pool.read(pool.table.text(), tokens).astype(np.float64)
    return float(np.log(np.exp(logits).sum()) - logits[following])


def test_models_or_texts_that_cannot_be_compared(tmp_path: Path) -> None:
    full = _written(tmp_path, "full", "F32")
    with pytest.raises(InputError, match="less than two tokens"):
        measure_divergence(full, full, [5])
    other = _written(tmp_path, "other", "F32", vocabulary=265)
    with pytest.raises(InputError, match="the models have 264 and 265 tokens"):
        measure_divergence(full, other, [5, 6, 7], threads=1)
