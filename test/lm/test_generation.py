"""Texts that continue a prompt: tokens of the decoder's logits, in one session or anew, until a text ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.lm import json_schema, regular_expression
from stepwell.lm.loading import load
from stepwell.lm.model import LanguageModel, SamplingOptions
from stepwell.runtime.pools import PooledModel

from .decoders import SMALL, TOKENIZER, GgufConfig, write_decoder, written


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return stepwell.lm.load(path, threads=1)


def test_tokens_are_those_of_the_file(model: LanguageModel):
    tokenizer, numbers = model.tokenizer, TOKENIZER["tokenizer.ggml.tokens"].index
    assert tokenizer.encode("the th") == [numbers("the"), numbers("\u0120"), numbers("th")]
    assert tokenizer.encode("<|user|>a") == [260, numbers("a")]
    for text in ("the other — Öl, 日本", " a\n\n b"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_text_is_that_of_the_most_probable_tokens(model: LanguageModel):
    """A token that a whole prompt gives is that which a session gives step by step."""
    tokens, found = model.tokenizer.encode("the best"), []
    for _ in range(6):
        pool = model.pool()
        found.append(int(pool.read(pool.table.text(), tokens + found).argmax()))
    session = model.session()
    text = "".join(session.stream("the best", most=6))
    assert session.tokens[len(tokens) :] == found[:5]
    wanted = model.tokenizer.stepwise()
    assert text == "".join(map(wanted.add, found))
    assert model.generate("the best", most=6) == text


def test_a_session_reads_only_what_is_new(model: LanguageModel, monkeypatch: pytest.MonkeyPatch):
    session, lengths, call = model.session(), [], PooledModel.__call__

    def counted(pooled: PooledModel, **given: np.ndarray) -> np.ndarray:
        lengths.append(given["input_ids"].shape[1])
        return call(pooled, **given)

    with monkeypatch.context() as patch:
        patch.setattr(PooledModel, "__call__", counted)
        first, again, other = (
            "".join(session.stream(prompt, most=1)) for prompt in ("one two three", "one two three", "one two four")
        )
    assert (lengths, again) == ([len("one two three") - 1, 1, 4], first)  # "th" is one token
    assert other == model.generate("one two four", most=1)


def test_the_same_seed_gives_the_same_text(model: LanguageModel):
    sampling = SamplingOptions(temperature=1.5, top_k=50, seed=3)
    texts = {model.generate("a", sampling, most=8) for _ in range(2)}
    assert len(texts) == 1
    assert texts != {model.generate("a", SamplingOptions(temperature=1.5, top_k=50, seed=4), most=8)}


def test_penalties_avoid_what_the_text_has(model: LanguageModel):
    sampling = SamplingOptions(frequency_penalty=2.0)
    logits, random = np.array([1.0, 0.9, 0.0], np.float32), np.random.default_rng(0)
    assert [sampling.choose(logits, random, counts) for counts in ({}, {0: 1}, {0: 1, 1: 1})] == [0, 1, 2]
    assert SamplingOptions(presence_penalty=0.05).choose(logits, random, {0: 9}) == 0
    assert len(set(model.generate("a", sampling, most=20))) > 1


def test_texts_follow_a_grammar(model: LanguageModel):
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [True, 12]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    for seed in range(4):
        sampling = SamplingOptions(temperature=1.0, seed=seed, grammar=json_schema(schema))
        assert json.loads(model.generate("a", sampling))["a"] in (True, 12)
        sampling = SamplingOptions(temperature=1.0, seed=seed, grammar=regular_expression("(the )+!"))
        assert re.fullmatch("(the )+!", model.generate("a", sampling, most=60)) or seed
    with pytest.raises(stepwell.InputError, match="the grammar is wrong"):
        model.generate("a", SamplingOptions(grammar=json_schema({"type": "objekt"})))


def test_a_stop_text_ends_the_text_and_is_not_part_of_it(model: LanguageModel):
    whole = model.generate("a", most=12)
    stop = whole[4:6]
    assert model.generate("a", most=12, stop=[stop]) == whole[: whole.index(stop)]
    assert model.generate("a", most=12, stop=["\0\0"]) == whole


def test_a_chat_is_a_prompt(model: LanguageModel):
    messages = [{"role": "user", "content": "hello"}]
    prompt = "<|user|>hello\n"
    assert model.tokenizer.chat(messages) == prompt
    assert "".join(model.session().chat(messages, most=4)) == model.generate(prompt, most=4)


def test_probabilities():
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))
    for sampling, wanted in (
        (SamplingOptions(1.0), [0.5, 0.3, 0.15, 0.05]),
        (SamplingOptions(1.0, top_k=2), [0.625, 0.375, 0, 0]),
        (SamplingOptions(1.0, top_p=0.6), [0.625, 0.375, 0, 0]),
        (SamplingOptions(1.0, min_p=0.4), [0.625, 0.375, 0, 0]),
        (SamplingOptions(0.5), np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365),
    ):
        np.testing.assert_allclose(sampling.probabilities(logits), wanted, rtol=1e-12)


def test_errors(model: LanguageModel, path: Path, tmp_path: Path):
    with pytest.raises(stepwell.InputError, match=r"the prompt has 64 tokens, and the context 64"):
        model.session().stream("x" * 64)
    with pytest.raises(stepwell.InputError, match=r"the prompt is empty"):
        model.session().stream("")
    with pytest.raises(stepwell.InputError, match=r"context is 65, and must be from 2 to 64"):
        load(path, context=65)
    with pytest.raises(stepwell.OptionError, match=r"top_p is 2, and must be from 0 to 1"):
        SamplingOptions(top_p=2)
    bare = tmp_path / "bare.gguf"
    write_decoder(bare, GgufConfig(kind="F32", vocabulary=264, **SMALL))
    with pytest.raises(stepwell.ModelError, match=r"bare.gguf: lacks the setting 'tokenizer.ggml.model'"):
        load(bare)
