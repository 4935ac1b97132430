"""Decoders in folders that the package transformers saves give its logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepwell

for name in ("gguf", "torch", "transformers"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

import torch  # noqa: E402
from stepwell.driver.sources.source import SourceError  # noqa: E402
from stepwell.frontend.huggingface.folder import read_folder  # noqa: E402
from stepwell.frontend.huggingface.settings import ARCHITECTURES  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from ..gguf.converted import random_decoder  # noqa: E402
from ..gguf.test_architectures import CASES as GGUF_CASES  # noqa: E402
from ..gguf.test_architectures import FALCON, SIZES  # noqa: E402

LENGTH = 12
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CASES: dict[str, dict[str, Any]] = {
    **dict(GGUF_CASES.values()),
    "llama": {**SIZES, "rope_parameters": LLAMA3},
    "mistral": {**SIZES, "sliding_window": 6},
    "falcon": {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2},
}


def logits_of(folder: Path, tokens: np.ndarray) -> np.ndarray:
    sizes = {"batch": 1, "length": (1, LENGTH), "past": (0, LENGTH), "outputs": (1, LENGTH)}
    run = stepwell.compile(folder, threads=1, options={"dims": sizes, "cache": False, "fallback": "error"})
    return run.state({"batch": 1})(input_ids=tokens, selected=np.arange(LENGTH), starts=np.array([0]))


def test_all_types_are_compared() -> None:
    assert CASES.keys() == ARCHITECTURES.keys()


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore")  # of the other packages
@pytest.mark.parametrize("kind", CASES)
def test_logits_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    model = random_decoder(kind, CASES[kind])
    model.save_pretrained(tmp_path)
    tokens = np.random.default_rng(0).integers(3, 96, (1, LENGTH))
    with torch.no_grad():
        wanted = model(torch.tensor(tokens)).logits.numpy()
    np.testing.assert_allclose(logits_of(tmp_path, tokens), wanted, rtol=0, atol=3e-5)


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
def test_weights_are_mapped_and_may_be_short_floats_in_several_files(tmp_path: Path) -> None:
    short = random_decoder("llama", SIZES).to(torch.bfloat16)
    short.save_pretrained(tmp_path)
    whole = read_folder(tmp_path).tensor("blk.0.ffn_up.weight")
    assert whole.kind == "BF16" and not whole.data.flags.owndata and not whole.data.flags.writeable
    (tmp_path / "model.safetensors").unlink()
    short.save_pretrained(tmp_path, max_shard_size="20KB")
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    tokens = np.arange(3, 3 + LENGTH)[None]
    with torch.no_grad():
        wanted = model(torch.tensor(tokens)).logits.numpy()
    np.testing.assert_allclose(logits_of(tmp_path, tokens), wanted, rtol=0, atol=3e-5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "gptj"}, "has the model type 'gptj', which is not supported"),
        ({"quantization_config": ["gptq"]}, "has a quantization_config that is no object"),
        ({"num_attention_heads": None}, "config.json lacks the number 'num_attention_heads'"),
        ({"max_position_embeddings": None}, "config.json lacks the number 'max_position_embeddings'"),
        ({}, "lacks the weights model.safetensors"),
    ],
)
def test_what_is_not_supported_or_missing(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = {"model_type": "llama", **SIZES, "rms_norm_eps": 1e-5, **changed}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(stepwell.ModelError, match=message):
        read_folder(tmp_path)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a directory without config\.json is no model"):
        stepwell.compile(tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "dtype"), [("mixtral", torch.bfloat16), ("llama", torch.float16)])
def test_short_floats_take_two_bytes_in_all_programs(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    random_decoder(kind, CASES[kind]).to(dtype).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = np.arange(3, 3 + LENGTH)[None]
    matrices, weights = sum(value.numel() for value in model.parameters() if value.ndim > 1), {}
    with torch.no_grad():
        wanted = model(torch.tensor(tokens)).logits.numpy()
    for length in (1, (1, LENGTH)):
        sizes = {"batch": 1, "length": length, "past": (0, LENGTH), "outputs": 1}
        run = stepwell.compile(tmp_path, threads=1, options={"dims": sizes, "cache": False, "fallback": "error"})
        state = run.state({"batch": 1})
        for part in [tokens] if length != 1 else np.split(tokens, LENGTH, axis=1):
            logits = state(input_ids=part, selected=np.array([part.shape[1] - 1]), starts=np.array([0]))
        np.testing.assert_allclose(logits[:, 0], wanted[:, -1], rtol=0, atol=3e-5)
        for program in run.programs:
            weights |= {(name, array.tobytes()): array.nbytes for name, array in program.parameters.items()}
    # The table of tokens is also the last matrix, which is packed.
    assert sum(weights.values()) < 2 * 1.2 * matrices
