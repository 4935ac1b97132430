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
EXPERTS = {"moe_intermediate_size": 32}
FALCON = {**SIZES, "alibi": False, "activation": "gelu_new", "bias": False}
# The name of the architecture, and after a dash what is special about it. Windows are narrower than the text; Gemma 3
# has its first layer without one in the sixth place.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", SIZES),
    "llama-experts": ("mixtral", {**SIZES, "num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen2": ("qwen2", SIZES),
    "qwen2moe": (
        "qwen2_moe",
        {**SIZES, "num_experts": 6, "num_experts_per_tok": 2, **EXPERTS, "shared_expert_intermediate_size": 32},
    ),
    "qwen3": ("qwen3", {**SIZES, "head_dim": 16}),
    "gemma": ("gemma", {**SIZES, "head_dim": 16}),
    "gemma2": (
        "gemma2",
        {
            **SIZES,
            "head_dim": 16,
            "sliding_window": 8,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 0.5,
            "final_logit_softcapping": 1.0,
        },
    ),
    "gemma3": (
        "gemma3_text",
        {**SIZES, "head_dim": 32, "num_hidden_layers": 7, "sliding_window": 8, "query_pre_attn_scalar": 32},
    ),
    "qwen3moe": (
        "qwen3_moe",
        {**SIZES, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": True, **EXPERTS},
    ),
    "bloom": ("bloom", {"vocab_size": 96, "hidden_size": 64, "n_layer": 2, "n_head": 4}),
    "falcon": ("falcon", {**FALCON, "multi_query": True}),
    "gptneox": ("gpt_neox", {**SIZES, "num_key_value_heads": 4, "rotary_pct": 0.5, "hidden_act": "gelu_new"}),
    "phi2": ("phi", {**SIZES, "partial_rotary_factor": 0.5}),
    "phi3": ("phi3", {**SIZES, "sliding_window": 5}),
    "gpt2": ("gpt2", GPT2),
    "stablelm": ("stablelm", {**SIZES, "partial_rotary_factor": 0.5, "use_qkv_bias": True}),
    "starcoder2": ("starcoder2", {**SIZES, "sliding_window": 6, "use_bias": True}),
}
LENGTH, FIRST = 16, 13


def test_all_architectures_are_compared() -> None:
    assert {name.partition("-")[0] for name in CASES} == ARCHITECTURES.keys()


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")  # of the other packages
@pytest.mark.parametrize("architecture", CASES)
def test_logits_are_those_of_transformers(architecture: str, tmp_path: Path) -> None:
    kind, settings = CASES[architecture]
    model, path = random_decoder(kind, settings), tmp_path / "decoder.gguf"
    write_converted(path, architecture.partition("-")[0], model)
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
