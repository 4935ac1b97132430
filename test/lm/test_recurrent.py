"""Mamba and RWKV from Hugging Face folders: tokens are those of transformers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepwell

for name in ("gguf", "jinja2", "tokenizers", "torch", "transformers"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

from stepwell.lm import End, Engine, LanguageModel, Piece, Request  # noqa: E402
from stepwell.support.errors import InputError  # noqa: E402

from .exported_decoders import SIZES, decoder_of, tokens_by_torch  # noqa: E402
from .test_folder import write_tokenizer  # noqa: E402

MODELS: dict[str, dict[str, Any]] = {
    "mamba": {**SIZES, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "time_step_rank": 4},
    "rwkv": {
        **SIZES,
        "hidden_size": 32,
        "attention_hidden_size": 32,
        "num_hidden_layers": 3,
        "rescale_every": 2,
        "context_length": 64,
    },
}
PROMPTS = ([256, 5, 9, 40, 7, 12], [256, 77, 31])


def written(kind: str, folder: Path) -> Any:
    """Writes a model of transformers with random weights to a folder, and returns it."""
    import torch

    model = decoder_of(kind, "eager", **MODELS[kind])
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "A_log" not in name:
                weight.normal_(0, 0.3)
            elif kind == "rwkv" and "time_" in name:
                weight.uniform_(0.1, 0.9)
    write_tokenizer(folder)
    for name in ("generation_config.json", "config.json"):
        (folder / name).unlink()
    if kind == "rwkv":  # weights of 16 bits, which products read as floats
        model.bfloat16()
    model.save_pretrained(folder)
    return model.float()


def chosen(model: LanguageModel, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Returns the most probable next tokens of texts of different lengths, in steps of all of them."""
    pool, found = model.pool(), []
    texts = [pool.table.text() for _ in prompts]
    for text, prompt in zip(texts, prompts, strict=True):
        found.append([int(pool.read(text, list(prompt)).argmax())])
    for _ in range(count - 1):
        logits = pool.step(texts, [tokens[-1:] for tokens in found])
        for tokens, row in zip(found, logits, strict=True):
            tokens.append(int(row.argmax()))
    return found


@pytest.mark.parametrize("kind", list(MODELS))
def test_tokens_of_texts_alone_and_together(kind: str, tmp_path: Path) -> None:
    reference = written(kind, tmp_path)
    wanted = [tokens_by_torch(reference, prompt, 16) for prompt in PROMPTS]
    assert len({*wanted[0], *wanted[1]}) > 4, "texts that repeat a token prove little"
    model = stepwell.lm.load(tmp_path, context=64, threads=1, sequences=2)
    assert chosen(model, PROMPTS, 16) == wanted
    assert [chosen(model, [prompt], 16)[0] for prompt in PROMPTS] == wanted


@pytest.mark.parametrize("kind", list(MODELS))
def test_chunks_of_prompts_follow_each_other(kind: str, tmp_path: Path) -> None:
    """Tokens that follow a prompt do not depend on where it is cut: each chunk begins with the state of the last."""
    written(kind, tmp_path)
    model, tokens = stepwell.lm.load(tmp_path, context=64, threads=1), [256, *range(3, 60, 2)]
    pool = model.pool()
    logits = []
    for cut in (0, 1, 13, len(tokens) - 1):
        text = pool.table.text()
        if cut:
            pool.read(text, tokens[:cut])
        logits.append(pool.read(text, tokens[cut:]))
        assert text.length == len(tokens)
        pool.table.release(text)
    for found in logits[1:]:
        np.testing.assert_allclose(found, logits[0], rtol=1e-3, atol=1e-4)


def test_sessions_and_engines(tmp_path: Path) -> None:
    written("mamba", tmp_path)
    model = stepwell.lm.load(tmp_path, context=64, threads=1, sequences=2, batch_invariant=True)
    session = model.session()
    first = "".join(session.stream("Once upon a time", most=8))
    tokens = list(session.tokens)
    assert "".join(session.stream("Another text", most=8)) == model.generate("Another text", most=8)
    assert "".join(session.stream("Once upon a time", most=8)) == first
    assert session.tokens == tokens

    prompts = [[256, *range(1, 30)], [256, *range(1, 20)], [256, *range(1, 40)]]
    texts, ends, done = ["", "", ""], list[End](), threading.Semaphore(0)

    def receive(number: int, event: Piece | End) -> None:
        if isinstance(event, End):
            ends.append(event)
            done.release()
        else:
            texts[number] += event.text

    alone = [chosen(model, [prompt], 6)[0] for prompt in prompts]
    with Engine(model) as engine:
        for number, prompt in enumerate(prompts):
            engine.submit(Request(prompt, lambda event, number=number: receive(number, event), most=6))
        for _ in prompts:
            done.acquire()
    assert [end.error for end in ends] == [""] * 3
    for text, tokens in zip(texts[1:], alone[1:], strict=True):
        assert text == model.tokenizer.decode(tokens).rstrip("\ufffd")  # without the beginning of a character


@pytest.mark.parametrize(("is_invariant", "cached"), [(False, 40 + 5), (True, 0)])
def test_a_text_that_continues_an_ended_one(is_invariant: bool, cached: int, tmp_path: Path) -> None:
    """It begins with the state of the ended text, unless it must be the text alone, whose prompt is read in chunks."""
    written("mamba", tmp_path)
    model = stepwell.lm.load(tmp_path, context=64, threads=1, sequences=2, batch_invariant=is_invariant)
    ends, done = list[End](), threading.Semaphore(0)

    def receive(event: Piece | End) -> None:
        if isinstance(event, End):
            ends.append(event)
            done.release()

    prompt = [256, *range(1, 40)]
    again = [*prompt, *chosen(model, [prompt], 6)[0][:5], 9, 9]  # the state is that of all tokens but the last
    with Engine(model) as engine:
        for tokens, most in ((prompt, 6), (again, 1)):
            engine.submit(Request(tokens, receive, most=most))
            done.acquire()
    assert [end.error for end in ends] == ["", ""]
    assert ends[-1].cached_tokens == cached


def test_options_that_are_refused(tmp_path: Path) -> None:
    written("rwkv", tmp_path)
    for options in ({"lookup": 2}, {"cache": "int8"}, {"draft": tmp_path}):
        with pytest.raises(InputError, match="for models with keys and values; this one has other states"):
            stepwell.lm.load(tmp_path, **options)
    with pytest.raises(InputError, match="context is 65, and must be from 2 to 64"):
        stepwell.lm.load(tmp_path, context=65)


def test_a_state_cannot_be_cut() -> None:
    from stepwell.lm.pages import PageTable

    table = PageTable(2, 64, 1, is_whole=True)
    text = table.text()
    table.reserve(text, 10)
    text.length = 10
    assert (table.usable(text, 10), table.usable(text, 9)) == (10, 0)
    other = table.share(text, 10)
    assert table.reserve(other, 11) == (0, 1)
    table.truncate(text, 9)
    assert (text.length, text.pages, table.free) == (0, 0, 1)
    assert np.all(table.references == [0, 1])
