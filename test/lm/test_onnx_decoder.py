"""ONNX decoders, in the forms of ONNX Runtime GenAI and of optimum: their tokens are those of a plain reference."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import helper

for name in ("gguf", "jinja2", "tokenizers", "onnxruntime"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

from stepwell.bench.genai_decoder import CONTEXT, DEPTH, HIDDEN, INNER, LAYERS, VOCABULARY, genai_decoder, write_genai  # noqa: E402
from stepwell.frontend.errors import ModelError  # noqa: E402
from stepwell.lm import End, Engine, LanguageModel, Piece, Request  # noqa: E402

from .exported_decoders import BLOOM, GPT2, LLAMA, decoder_of, export, merged, tokens_by_torch  # noqa: E402
from .onnx_decoders import tokens_by_onnx_runtime  # noqa: E402
from .test_folder import write_tokenizer  # noqa: E402

PROMPTS = ([256, 5, 9, 40, 7], [256, 77, 31])


def chosen(model: LanguageModel, prompt: Sequence[int], count: int) -> list[int]:
    """Returns the most probable next tokens."""
    pool, unread, found = model.pool(), list(prompt), list[int]()
    text = pool.table.text()
    for _ in range(count):
        unread = [int(pool.read(text, unread).argmax())]
        found += unread
    return found


def together(model: LanguageModel, prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
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


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("bits", "options"),
    [
        (4, {"accuracy": 4, "is_packed": True}),
        (4, {}),
        (0, {}),
        (0, {"local_window_size": 4, "rotary_interleaved": 1}),
        (0, {"softcap": 2.0}),
        (4, {"dtype": np.float16}),
    ],
    ids=["packed-4-bits", "4-bits", "floats", "window", "softcap", "half"],
)
def test_genai_folder(bits: int, options: dict[str, Any], tmp_path: Path) -> None:
    folder = write_genai(tmp_path, genai_decoder(bits, **options))
    wanted = [tokens_by_onnx_runtime(folder / "model.onnx", prompt, 12) for prompt in PROMPTS]
    model = stepwell.lm.load(folder, threads=1, sequences=2)
    assert model.context == 64
    if bits:  # the table of embeddings and those of angles stay floats
        floats = VOCABULARY * HIDDEN + 2 * CONTEXT * DEPTH
        others = VOCABULARY * HIDDEN + LAYERS * HIDDEN * (3 * INNER + 3 * HIDDEN)
        assert model.weight_bytes < 4 * (floats + 0.2 * others)
    assert [chosen(model, prompt, 12) for prompt in PROMPTS] == wanted
    assert together(model, PROMPTS, 12) == wanted


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "attention", "settings"),
    [
        ("llama", "sdpa", LLAMA),
        ("gpt2", "sdpa", GPT2),
        ("qwen3", "sdpa", {**LLAMA, "head_dim": 16}),
        ("bloom", "eager", BLOOM),
    ],
    ids=["llama", "gpt2", "qwen3", "bloom"],
)
def test_folder_of_optimum(kind: str, attention: str, settings: dict[str, Any], tmp_path: Path) -> None:
    reference = decoder_of(kind, attention, **settings)
    write_tokenizer(tmp_path)
    reference.config.save_pretrained(tmp_path)
    export(reference, tmp_path / "model.onnx")
    if kind == "llama":
        onnx.save(merged(tmp_path / "model.onnx"), tmp_path / "decoder_model_merged.onnx")
        (tmp_path / "model.onnx").unlink()
    wanted = [tokens_by_torch(reference, prompt, 12) for prompt in PROMPTS]
    model = stepwell.lm.load(tmp_path, threads=1, sequences=2)
    assert [chosen(model, prompt, 12) for prompt in PROMPTS] == wanted
    assert together(model, PROMPTS, 12) == wanted


@pytest.mark.parametrize(
    ("cache", "size"), [pytest.param("float", 2 * 16, marks=pytest.mark.sweep), ("int8", 16 + 4), ("int4", 8 + 4)]
)
def test_caches_of_half_precision(cache: Any, size: int, tmp_path: Path) -> None:
    """Keys and values stay as short as they are in the file, or become integers."""
    folder = write_genai(tmp_path, genai_decoder(dtype=np.float16))
    wanted = tokens_by_onnx_runtime(folder / "model.onnx", PROMPTS[0], 12)
    model = stepwell.lm.load(folder, threads=1, cache=cache)
    assert model.bytes_per_token == 2 * 2 * 2 * size
    found = chosen(model, PROMPTS[0], 12)
    assert found[: 12 if cache == "float" else 1] == wanted[: 12 if cache == "float" else 1]


def test_engine_shares_the_beginning_of_a_prompt(tmp_path: Path) -> None:
    model = stepwell.lm.load(write_genai(tmp_path, genai_decoder(4)), threads=1, sequences=2)
    ends: list[End] = []
    done = threading.Semaphore(0)

    def receive(event: Piece | End) -> None:
        if isinstance(event, End):
            ends.append(event)
            done.release()

    prompt = [256, *range(1, 30)]
    with Engine(model) as engine:
        for _ in range(2):
            engine.submit(Request(prompt, receive, most=2))
            done.acquire()
    assert [end.error for end in ends] == ["", ""]
    assert [end.cached_tokens for end in ends] == [0, len(prompt) - 1]


def _without_caches(model: onnx.ModelProto) -> None:
    for ports in (model.graph.input, model.graph.output):
        kept = [item for item in ports if not item.name.startswith(("past_key_values", "present"))]
        del ports[:]
        ports.extend(kept)


def _with_another_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("pixel_values", onnx.TensorProto.FLOAT, [1, 3]))


def _of_an_encoder_decoder(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("encoder_hidden_states", onnx.TensorProto.FLOAT, [1, 3]))


def _without_a_depth(model: onnx.ModelProto) -> None:
    cache = next(item for item in model.graph.input if item.name == "past_key_values.0.key")
    cache.type.tensor_type.shape.dim[3].dim_param = "depth"


def _in_double_precision(model: onnx.ModelProto) -> None:
    for item in model.graph.input:
        if item.name.startswith("past_key_values"):
            item.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without_caches, "no inputs with keys and values of past tokens .*: export it with a cache"),
        (_with_another_input, "has the input 'pixel_values', whose meaning is not known"),
        (_of_an_encoder_decoder, "'encoder_hidden_states': it is a part of an encoder-decoder"),
        (_without_a_depth, r"'past_key_values.0.key' is declared as \[batch_size, 2, past_sequence_length, depth\]"),
        (_in_double_precision, "elements of type float64, and must have one of float32, float16, bfloat16"),
    ],
)
def test_decoders_that_are_refused(change: Callable[[onnx.ModelProto], None], message: str, tmp_path: Path) -> None:
    model = genai_decoder()
    change(model)
    with pytest.raises(ModelError, match=message):
        stepwell.lm.load(write_genai(tmp_path, model))


def test_settings_that_are_refused(tmp_path: Path) -> None:
    write_genai(tmp_path, genai_decoder())
    settings = json.loads((tmp_path / "genai_config.json").read_text())
    decoder = settings["model"]["decoder"]
    cases = [
        ({**decoder, "filename": "other.onnx"}, "names the decoder 'other.onnx', which the folder lacks"),
        ({**decoder, "pipeline": [{}]}, "describes a decoder in several files"),
        (None, "describes no decoder"),
    ]
    for changed, message in cases:
        (tmp_path / "genai_config.json").write_text(json.dumps({"model": {"decoder": changed}}))
        with pytest.raises(ModelError, match=message):
            stepwell.lm.load(tmp_path)
    (tmp_path / "genai_config.json").unlink()
    with pytest.raises(ModelError, match=r"lacks genai_config.json or config.json beside model.onnx"):
        stepwell.lm.load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"config.json does not say .*: add 'max_position_embeddings' to it"):
        stepwell.lm.load(tmp_path)
    (tmp_path / "encoder_model.onnx").touch()
    with pytest.raises(ModelError, match="holds an encoder-decoder in ONNX"):
        stepwell.lm.load(tmp_path)
