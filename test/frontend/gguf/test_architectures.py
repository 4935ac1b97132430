"""Decoders of all supported architectures give the logits of the package transformers, at once and step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepwell
from stepwell.frontend.gguf.architectures import ARCHITECTURES

for name in ("gguf", "torch", "transformers"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

import torch  # noqa: E402

from .converted import random_decoder, write_converted  # noqa: E402

SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
GPT2 = {"vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "n_inner": 96}
# Windows are narrower than the text; Gemma 3 has its first layer without one in the sixth place.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", SIZES),
    "qwen2": ("qwen2", SIZES),
    "qwen3": ("qwen3", {**SIZES, "head_dim": 16}),
    "gemma": ("gemma", {**SIZES, "head_dim": 16}),
    "gemma3": (
        "gemma3_text",
        {**SIZES, "head_dim": 32, "num_hidden_layers": 7, "sliding_window": 8, "query_pre_attn_scalar": 32},
    ),
    "phi2": ("phi", {**SIZES, "partial_rotary_factor": 0.5}),
    "phi3": ("phi3", {**SIZES, "sliding_window": 5}),
    "gpt2": ("gpt2", GPT2),
    "stablelm": ("stablelm", {**SIZES, "partial_rotary_factor": 0.5, "use_qkv_bias": True}),
    "starcoder2": ("starcoder2", {**SIZES, "sliding_window": 6, "use_bias": True}),
}
LENGTH, FIRST = 16, 13


def test_all_architectures_are_compared() -> None:
    assert CASES.keys() == ARCHITECTURES.keys()


@pytest.mark.few(3)
@pytest.mark.filterwarnings("ignore")  # of the other packages
@pytest.mark.parametrize("architecture", CASES)
def test_logits_are_those_of_transformers(architecture: str, tmp_path: Path) -> None:
    kind, settings = CASES[architecture]
    model, path = random_decoder(kind, settings), tmp_path / "decoder.gguf"
    write_converted(path, architecture, model)
    tokens = np.random.default_rng(0).integers(3, 96, (1, LENGTH))
    with torch.no_grad():
        wanted = model(torch.tensor(tokens)).logits.numpy()
    sizes = {"batch": 1, "length": (1, LENGTH), "past": (0, LENGTH), "outputs": (1, LENGTH)}
    run = stepwell.compile(path, threads=1, options={"dims": sizes, "cache": False, "fallback": "error"})
    assert run.unranged == ""
    state, first = run.state({"batch": 1}), np.array([0])
    found = [state(input_ids=tokens[:, :FIRST], selected=np.arange(FIRST), starts=first)]
    found += [state(input_ids=tokens[:, [place]], selected=first, starts=first) for place in range(FIRST, LENGTH)]
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, rtol=0, atol=3e-5)
