"""Keys and values in int8: stored rows, attention that reads them, and how far texts are from those of floats."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from stepwell.lm import End, Engine, LanguageModel, Request, load, measure_divergence

from .decoders import written
from .paged_steps import SIZES, paged_steps


def _stored(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows in int8, and their scales."""
    scales = np.maximum(np.abs(rows).max(-1, keepdims=True) * np.float32(1 / 127), np.finfo(np.float32).tiny)
    return np.rint(rows / scales).astype(np.int8), scales


@SIZES
def test_attention_is_that_of_its_reference(tmp_path: Path, count: int, depth: int):
    """Rows and scales are stored exactly, and read with an error of rounding only."""
    for each in paged_steps(tmp_path, count, depth, "int8"):
        for name, pool in (("k", "keys"), ("v", "values")):
            rows, scales = _stored(each.new[name])
            for text, token, slot in each.slots:
                np.testing.assert_array_equal(each.pools[pool][:, slot], rows[text, :, token])
                np.testing.assert_array_equal(each.pools[f"{pool}.scale"][:, slot], scales[text, :, token])
        each.check(np.eye(depth, dtype=np.float32))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("lm"), layers=2)


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return load(path, threads=1, sequences=3, cache="int8")


def test_memory_is_planned_with_the_scales(path: Path, model: LanguageModel):
    """A key or value of a head takes 16 bytes and a scale of 4, instead of 16 floats."""
    floats = load(path, threads=1, sequences=3)
    assert (floats.bytes_per_token, model.bytes_per_token) == (2 * 2 * 2 * 64, 2 * 2 * 2 * 20)
    assert model.pool().nbytes == model.pages * model.page_size * model.bytes_per_token
    size = 8 * model.page_size * model.bytes_per_token
    few = load(path, threads=1, sequences=3, memory=size, cache="int8")
    assert (few.pages, few.pool().nbytes) == (8, size)


def test_scales_move_with_the_rows_of_a_copied_page(model: LanguageModel):
    """A text that shares a beginning, goes on in another way and is cut has the logits of a text alone."""
    tokens = model.tokenizer.encode("the other one of the three, which")
    pool = model.pool()
    text = pool.table.text()
    pool.read(text, tokens)
    other = pool.table.share(text, 5)
    pool.step([text, other], [[9], [11]])
    assert text.table[0] != other.table[0]
    for array in pool._arrays:
        first, second = (array[:, paged.table[0] * model.page_size :][:, :5] for paged in (text, other))
        np.testing.assert_array_equal(first, second)
    pool.table.truncate(other, 5)
    found = pool.step([other], [[13]])[0]
    alone = model.pool()
    fresh = alone.table.text()
    alone.read(fresh, tokens[:5])
    np.testing.assert_allclose(found, alone.step([fresh], [[13]])[0], rtol=1e-4, atol=1e-4)


def test_texts_together_are_those_alone(model: LanguageModel):
    """Also those that share a beginning with an ended one."""
    texts: dict[str, list[str]] = {}
    prompts = ("the other one of the three", "the other one of the best", "to be", "the other one of the three, too")
    with Engine(model) as engine:
        ended = threading.Semaphore(0)

        def deliver(prompt: str, event) -> None:
            if isinstance(event, End):
                ended.release()
            else:
                texts[prompt] = [*texts.get(prompt, []), event.text]

        for prompt in prompts:
            engine.submit(
                Request(model.tokenizer.encode(prompt), lambda event, prompt=prompt: deliver(prompt, event), most=12)
            )
        for _ in prompts:
            assert ended.acquire(timeout=60)
    for prompt in prompts:
        assert "".join(texts[prompt]) == model.generate(prompt, most=12)


def test_divergence_from_floats(path: Path):
    text = "The well has ninety steps, and each is narrower than the one above it. " * 3
    found = measure_divergence(path, path, text, threads=1, cache="int8")
    assert 0 < found.mean <= 0.001
    assert found.same_top >= 0.95
