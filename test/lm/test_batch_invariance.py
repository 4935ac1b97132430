"""Texts with weights in blocks, whose activations are rounded, are those that each request gets alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.lm import Engine, LanguageModel, SamplingOptions
from stepwell.lm.text_states import chunk_of

from .decoders import written
from .test_engine import Answer

TOGETHER, REQUESTS = 4, 64


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("lm"), layers=3, kind="Q4_0")


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return stepwell.lm.load(path, threads=1, sequences=TOGETHER, batch_invariant=True)


@pytest.fixture(scope="module")
def requests() -> list[tuple[str, dict]]:
    """Prompts of many lengths, some of which begin alike, and their options."""
    random, made = np.random.default_rng(0), []
    for number in range(REQUESTS):
        prompt = "the same start of all" * (number % 3 == 0) + "".join(
            chr(97 + letter) for letter in random.integers(0, 26, random.integers(1, 24))
        )
        sampling = SamplingOptions(temperature=float(number % 2), seed=number)
        made.append((prompt, {"sampling": sampling, "most": int(random.integers(2, 38))}))
    return made


@pytest.fixture(scope="module")
def alone(model: LanguageModel, requests: list[tuple[str, dict]]) -> list[list[tuple[str, float]]]:
    """The tokens of each request in an engine without other texts, with their log-probabilities."""
    found = []
    for prompt, options in requests:
        with Engine(model) as engine:
            found += _run(engine, model, [(prompt, options)])
    return found


def _run(engine: Engine, model: LanguageModel, requests: list[tuple[str, dict]]) -> list[list[tuple[str, float]]]:
    answers = [Answer(model, prompt, logprobs=1, **options) for prompt, options in requests]
    for answer in answers:
        engine.submit(answer.request)
    for answer in answers:
        assert answer.end().reason in ("length", "stop")
    return [
        [(choice.text, choice.logprob) for piece in answer.pieces for choice in piece.choices] for answer in answers
    ]


@pytest.mark.parametrize("pages", [5, 64], ids=["too few pages", "enough pages"])
def test_texts_are_those_alone(path: Path, model: LanguageModel, requests, alone, pages: int) -> None:
    memory = pages * model.page_size * model.bytes_per_token
    small = stepwell.lm.load(path, threads=1, sequences=TOGETHER, memory=memory, batch_invariant=True)
    with Engine(small) as engine:
        assert _run(engine, small, requests) == alone
        figures = engine.figures
    assert (figures.interrupted > 0) == (pages == 5)
    assert figures.requests == REQUESTS and figures.cached_tokens > 0


def test_saved_texts_are_restored(model: LanguageModel) -> None:
    pool = model.pool()
    text, other = pool.table.text(), pool.table.text()
    pool.read(text, list(range(3, 43)))
    saved = pool.save(text)
    pool.table.release(text)
    pool.read(other, [9] * 50)
    text = pool.table.text()
    pool.restore(text, saved)
    assert (text.length, text.pages) == (40, 2)
    fresh = model.pool()
    again = fresh.table.text()
    fresh.read(again, list(range(3, 43)))
    np.testing.assert_array_equal(pool.step([text], [[7]]), fresh.step([again], [[7]]))


def test_no_single_token_is_left() -> None:
    assert [chunk_of(unread, 8) for unread in (1, 7, 8, 9, 10, 17)] == [1, 7, 8, 7, 8, 8]


def test_proposed_tokens_are_refused(path: Path) -> None:
    with pytest.raises(stepwell.InputError, match="batch_invariant excludes lookup and draft"):
        stepwell.lm.load(path, lookup=2, batch_invariant=True)
