"""The accuracy of caches and of few bits on a model that was trained on text."""

from __future__ import annotations

from pathlib import Path

import pytest
from stepwell.lm import Divergence, load, measure_divergence

from .trained_model import HELD_OUT, MODEL, rewritten

TEXT = HELD_OUT.read_text(encoding="utf-8")[:3000]
"""Text of the kind that the model was trained on, but not part of it."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with the same weights in F32, so that activations are not rounded."""
    return rewritten(tmp_path_factory.mktemp("lm") / "original.gguf")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rewritten(tmp_path_factory.mktemp("lm") / "twin.gguf", is_twin=True)


@pytest.mark.slow
def test_rounded_activations(original: Path) -> None:
    """The weights are the same, so only the activations of products are rounded."""
    found = measure_divergence(MODEL, original, TEXT, threads=1)
    assert found.mean <= 0.001
    assert found.perplexity / found.reference_perplexity <= 1.003
    assert found.reference_perplexity < 40  # that of random weights is near 2,048, the number of tokens


@pytest.mark.slow
def test_twin_computes_the_same(original: Path, twin: Path) -> None:
    found = measure_divergence(twin, original, TEXT, threads=1)
    assert found.greatest <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_twin", "cache", "most"),
    [(False, "int8", 0.001), (True, "int8", 0.001), (False, "int4", 0.025), (True, "int4", 0.05)],
)
def test_keys_and_values_in_fewer_bits(original: Path, twin: Path, is_twin: bool, cache, most: float) -> None:
    path = twin if is_twin else original
    found: Divergence = measure_divergence(path, path, TEXT, threads=1, cache=cache)
    assert 0 < found.mean <= most


@pytest.mark.slow
def test_weights_of_four_bits(original: Path, tmp_path: Path) -> None:
    found = measure_divergence(rewritten(tmp_path / "short.gguf", "Q4_0"), original, TEXT, threads=1)
    assert found.mean <= 0.08
    assert found.perplexity / found.reference_perplexity <= 1.1


@pytest.mark.slow
def test_answer_of_the_chat() -> None:
    """An answer ends by itself, as those of the training do."""
    session = load(MODEL, threads=1, context=256).session()
    assert 0 < len(list(session.chat([{"role": "user", "content": "What does json.dumps do?"}], most=200))) < 200
