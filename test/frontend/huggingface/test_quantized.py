"""Quantised weights of folders are the numbers that their files mean, and decoders compute with them."""

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
from stepwell.dialects.stepwell.blocks import numbers_of  # noqa: E402
from stepwell.frontend.gguf.blocks import BlockWeight  # noqa: E402
from stepwell.frontend.huggingface.folder import read_folder  # noqa: E402
from stepwell.frontend.huggingface.quantized import read_quantized  # noqa: E402

from ..gguf.converted import random_decoder  # noqa: E402
from ..gguf.test_architectures import SIZES  # noqa: E402
from .quantizing import (  # noqa: E402
    Quantizer,
    awq,
    bytes_in_rows,
    bytes_in_tiles,
    compressed,
    compressed_bytes,
    gptq,
    short_floats,
    write_quantized,
)
from .test_folder import logits_of  # noqa: E402

GPTQ, AWQ, COMPRESSED = {"quant_method": "gptq"}, {"quant_method": "awq"}, {"quant_method": "compressed-tensors"}
SECOND = {**GPTQ, "checkpoint_format": "gptq_v2"}
CASES: dict[str, tuple[dict[str, Any], Quantizer]] = {
    "gptq": (GPTQ, gptq(4, 32)),
    "gptq-zeros": (GPTQ, gptq(4, 32, is_symmetric=False)),
    "gptq-second": (SECOND, gptq(4, 16, is_symmetric=False, first=False)),
    "gptq-order": (GPTQ, gptq(4, 32, is_symmetric=False, is_ordered=False)),
    "gptq-2": (GPTQ, gptq(2, 32, is_symmetric=False)),
    "gptq-3": (GPTQ, gptq(3, 32)),
    "gptq-8": (GPTQ, gptq(8, 32)),
    "awq": (AWQ, awq(32)),
    "compressed": (COMPRESSED, compressed(4, 32)),
    "compressed-zeros": (COMPRESSED, compressed(4, 32, is_symmetric=False)),
    "compressed-5": (COMPRESSED, compressed(5, 32)),
    "compressed-8": (COMPRESSED, compressed(8, 32)),
    "compressed-bytes": (COMPRESSED, compressed_bytes),
    "compressed-nvfp4": (COMPRESSED, short_floats(16)),
    "compressed-floats": (COMPRESSED, bytes_in_rows),
    "fp8": ({"quant_method": "fp8", "weight_block_size": [32, 64]}, bytes_in_tiles),
    "compressed-mxfp4": (COMPRESSED, short_floats(32)),
}


def floats_of(weight: BlockWeight | np.ndarray) -> np.ndarray:
    """Returns the matrix that a weight stands for."""
    if isinstance(weight, np.ndarray):
        return weight.astype(np.float32)
    zeros = weight.zeros if isinstance(weight.zeros, int) else weight.zeros[..., None].astype(np.float32)
    numbers = numbers_of(weight.numbers, weight.bits).astype(np.float32)
    matrix = ((numbers - zeros) * weight.scales[..., None].astype(np.float32)).reshape(weight.shape)
    return matrix if weight.order is None else matrix[:, np.argsort(weight.order)]


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_the_file(case: str) -> None:
    settings, quantize = CASES[case]
    matrix = np.random.default_rng(0).standard_normal((48, 96)).astype(np.float32)
    parts, meant = quantize(matrix)
    found = read_quantized({f"a.b.{part}": values for part, values in parts.items()}, settings)["a.b.weight"]
    assert found.shape == matrix.shape
    np.testing.assert_array_equal(floats_of(found), meant)


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore")  # of the other packages
@pytest.mark.parametrize("case", CASES)
def test_decoders_compute_with_them(case: str, tmp_path: Path) -> None:
    """Their logits differ from those with floats only because activations are rounded to 8 bits."""
    settings, quantize = CASES[case]
    model = random_decoder("llama", SIZES)
    model.save_pretrained(tmp_path)
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    meant = write_quantized(tmp_path, weights, settings, quantize)
    model.load_state_dict({name: torch.tensor(value) for name, value in meant.items()})
    tokens = np.random.default_rng(0).integers(3, 96, (1, 12))
    with torch.no_grad():
        wanted = model(torch.tensor(tokens)).logits.numpy()
    assert read_folder(tmp_path).tensor("blk.0.ffn_up.weight").kind in ("blocks", "BF16")
    error = np.abs(logits_of(tmp_path, tokens) - wanted).mean() / np.abs(wanted).mean()
    assert error < 0.03


@pytest.mark.filterwarnings("ignore")
def test_experts_are_stacked(tmp_path: Path) -> None:
    settings, quantize = CASES["awq"]
    parts, meant = quantize(np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32))
    config = {"model_type": "mixtral", **SIZES, "rms_norm_eps": 1e-5, "num_local_experts": 2, "num_experts_per_tok": 1}
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    named = {
        f"model.layers.0.block_sparse_moe.experts.{number}.w1.{part}": values
        for number in range(2)
        for part, values in parts.items()
    }
    (tmp_path / "model.safetensors").write_bytes(b"".join(stepwell.runtime.safetensors.chunks(named, is_padded=False)))
    blocks = read_folder(tmp_path).tensor("blk.0.ffn_gate_exps.weight").blocks()
    np.testing.assert_array_equal(floats_of(blocks), np.stack([meant, meant]))


def damaged(case: str, config: dict[str, Any] | None = None, **changed: np.ndarray) -> None:
    settings, quantize = CASES[case]
    settings = {**settings, **(config or {})}
    parts, _ = quantize(np.random.default_rng(0).standard_normal((48, 96)).astype(np.float32))
    read_quantized({f"a.b.{part}": values for part, values in {**parts, **changed}.items()}, settings)


@pytest.mark.parametrize(
    ("case", "changed", "message"),
    [
        ("gptq", {"scales": np.ones((5, 48), np.float16)}, "96 inputs are not in 5 groups"),
        ("gptq", {"scales": np.ones((3, 40), np.float16)}, "'qweight' and 'scales' have different numbers of columns"),
        ("gptq", {"qweight": np.ones((12, 48), np.int16)}, "words have the type int16"),
        ("gptq", {"qweight": np.ones(12, np.int32)}, "'qweight' is not a matrix"),
        ("gptq-order", {"g_idx": np.arange(96, dtype=np.int32)[::-1]}, "'g_idx' has no groups of equal size"),
        ("awq", {"qzeros": np.ones((3, 5), np.int32)}, "'scales' do not fit 4 bits"),
        ("compressed", {"weight_shape": np.array([48, 0])}, "12 words do not hold 0 numbers"),
        ("compressed", {"weight_scale": np.ones((47, 3), np.float16)}, "'weight_scale' does not fit"),
        ("compressed-bytes", {"weight": np.ones((48, 96), np.int16)}, "quantised weights of type int16"),
        ("fp8", {"weight_scale_inv": np.ones((3, 3), np.float32)}, r"is \[3, 3\], and must be \[2, 2\]"),
        ("fp8", {"config": {"weight_block_size": [0, 64]}}, "must be positive numbers"),
        ("fp8", {"config": {"weight_block_size": [32, 64, 1]}}, "'weight_block_size' is no pair"),
        ("compressed", {"weight_shape": np.array([48])}, "'weight_shape' is missing or no pair"),
        ("compressed-zeros", {"weight_g_idx": np.arange(96)[::-1]}, "actorder"),
    ],
)
def test_damaged_or_unsupported_weights(case: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(stepwell.ModelError, match=message):
        damaged(case, **changed)


def test_a_method_that_is_not_supported() -> None:
    with pytest.raises(stepwell.ModelError, match=r"quantised by 'bitsandbytes'.* supported are gptq, awq"):
        read_quantized({}, {"quant_method": "bitsandbytes"})
