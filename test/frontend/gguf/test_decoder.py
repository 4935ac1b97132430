"""Decoders in GGUF files give the logits of a decoder in numpy, whole or in steps that continue a state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.frontend.gguf.blocks import is_block_format

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")

from stepwell.bench.gguf_decoder import GgufConfig, write_decoder  # noqa: E402

BLOCK = 32
LENGTH = 9
SMALL = {"layers": 2, "hidden": 64, "heads": 4, "key_heads": 2, "intermediate": 96, "vocabulary": 50}
CONFIGS = [
    GgufConfig(kind="F32", **SMALL),
    GgufConfig("qwen2", "Q8_0", **SMALL),
    GgufConfig("qwen3", "Q4_0", is_tied=True, **SMALL),
    GgufConfig("llama", "Q4_1", **SMALL),
    GgufConfig("llama", "Q4_0", experts=3, **SMALL),
]


class Reference:
    """The decoder in numpy, in float64, with weights as the package gguf reads them."""

    def __init__(self, path: Path, config: GgufConfig) -> None:
        tensors = gguf.GGUFReader(path).tensors
        self.weights = {item.name: gguf.quants.dequantize(item.data, item.tensor_type) for item in tensors}
        self.in_blocks = {item.name for item in tensors if is_block_format(item.tensor_type.name)}
        self.config = config

    def linear(self, name: str, value: np.ndarray, expert: int | tuple[()] = ()) -> np.ndarray:
        if f"{name}.weight" in self.in_blocks:  # blocks of rows are rounded to bytes
            blocks = value.reshape(*value.shape[:-1], -1, BLOCK)
            scale = np.abs(blocks).max(-1, keepdims=True) / 127
            value = (np.rint(blocks / np.where(scale, scale, 1)) * scale).reshape(value.shape)
        weight = self.weights[f"{name}.weight"][expert].astype(np.float64)
        return value @ weight.T + self.weights.get(f"{name}.bias", 0)

    def norm(self, name: str, value: np.ndarray) -> np.ndarray:
        scaled = value / np.sqrt((value**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"]

    def heads(self, scope: str, part: str, value: np.ndarray) -> np.ndarray:
        apart = self.linear(f"{scope}.attn_{part}", value).reshape(*value.shape[:2], -1, self.config.depth)
        name = f"{scope}.attn_{part}_norm"
        return (self.norm(name, apart) if f"{name}.weight" in self.weights else apart).swapaxes(1, 2)

    def rotated(self, value: np.ndarray) -> np.ndarray:
        depth = self.config.depth
        turns = np.arange(value.shape[2])[:, None] * 10000.0 ** -(np.arange(0, depth, 2) / depth)
        numbers = np.arange(depth)
        halves = (numbers[::2], numbers[1::2]) if self.config.architecture == "llama" else np.split(numbers, 2)
        made = np.empty_like(value)
        first, second = (value[..., half] for half in halves)
        made[..., halves[0]] = first * np.cos(turns) - second * np.sin(turns)
        made[..., halves[1]] = second * np.cos(turns) + first * np.sin(turns)
        return made

    def attention(self, scope: str, value: np.ndarray) -> np.ndarray:
        query, key, fresh = (self.heads(scope, part, value) for part in "qkv")
        shared = self.config.heads // self.config.key_heads
        key, fresh = np.repeat(self.rotated(key), shared, 1), np.repeat(fresh, shared, 1)
        scores = self.rotated(query) @ key.swapaxes(2, 3) / np.sqrt(self.config.depth)
        scores[..., ~np.tri(scores.shape[-1], dtype=bool)] = -np.inf
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ fresh
        return self.linear(f"{scope}.attn_output", mixed.swapaxes(1, 2).reshape(*value.shape[:2], -1))

    def perceptron(self, scope: str, normal: np.ndarray, end: str = "", expert: int | tuple[()] = ()) -> np.ndarray:
        gate = self.linear(f"{scope}.ffn_gate{end}", normal, expert)
        opened = gate / (1 + np.exp(-gate)) * self.linear(f"{scope}.ffn_up{end}", normal, expert)
        return self.linear(f"{scope}.ffn_down{end}", opened, expert)

    def experts(self, scope: str, normal: np.ndarray) -> np.ndarray:
        powers = np.exp(self.linear(f"{scope}.ffn_gate_inp", normal))
        least = np.sort(powers)[..., [-self.config.used_experts]]
        shares = np.where(powers >= least, powers, 0)
        shares = shares / shares.sum(-1, keepdims=True)
        made = [self.perceptron(scope, normal, "_exps", expert) for expert in range(self.config.experts)]
        return np.sum([shares[..., [expert]] * item for expert, item in enumerate(made)], axis=0)

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        value = self.weights["token_embd.weight"][tokens].astype(np.float64)
        for layer in range(self.config.layers):
            scope = f"blk.{layer}"
            value = value + self.attention(scope, self.norm(f"{scope}.attn_norm", value))
            normal = self.norm(f"{scope}.ffn_norm", value)
            value = value + (self.experts if self.config.experts else self.perceptron)(scope, normal)
        return self.linear("token_embd" if self.config.is_tied else "output", self.norm("output_norm", value))


@pytest.mark.few(1)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.architecture}-{config.kind}-{config.experts}")
def test_logits_are_those_of_numpy(config: GgufConfig, tmp_path: Path):
    path = tmp_path / "decoder.gguf"
    write_decoder(path, config)
    sizes = {"batch": (1, 2), "length": (1, 16), "past": (0, 40), "outputs": (1, 16)}
    run = stepwell.compile(path, threads=1, options={"dims": sizes, "cache": False, "fallback": "error"})
    assert run.unranged == ""
    tokens = np.random.default_rng(1).integers(0, config.vocabulary, (2, LENGTH))
    wanted = Reference(path, config)(tokens)
    # A number that is nearly halfway between two bytes may be rounded to either: then results differ by more.
    tolerance = 1e-4 if config.kind == "F32" else 2e-2
    state, start = run.state({"batch": 2}), np.array([0, 0])
    logits = state(input_ids=tokens[:, :6], selected=np.arange(6), starts=start)
    np.testing.assert_allclose(logits, wanted[:, :6], rtol=0, atol=tolerance)
    for place in range(6, LENGTH):
        logits = state(input_ids=tokens[:, place : place + 1], selected=np.array([0]), starts=start)
        np.testing.assert_allclose(logits[:, 0], wanted[:, place], rtol=0, atol=tolerance)
    assert state.length == LENGTH
    # The second text begins three tokens later, and ends where the first one ends.
    state.reset()
    padded = np.stack([tokens[0], np.roll(tokens[1], 3)])
    logits = state(input_ids=padded, selected=np.arange(LENGTH), starts=np.array([0, 3]))
    np.testing.assert_allclose(logits[0], wanted[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(logits[1, 3:], wanted[1, :-3], rtol=0, atol=tolerance)


def test_contents_in_memory_are_a_model(tmp_path: Path):
    path = tmp_path / "decoder.gguf"
    write_decoder(path, CONFIGS[0])
    run = stepwell.compile(path.read_bytes())
    assert [info.name for info in run.inputs] == [
        "input_ids",
        "selected",
        "starts",
        *(f"past.{layer}.{part}" for layer in range(2) for part in ("key", "value")),
    ]


def test_errors_name_what_is_wrong(tmp_path: Path):
    path = tmp_path / "decoder.gguf"
    write_decoder(path, GgufConfig("gptj", "F32", **SMALL))
    with pytest.raises(stepwell.ModelError, match=r"decoder.gguf: has the architecture 'gptj', which is not supported"):
        stepwell.compile(path)
    write_decoder(path, CONFIGS[0])
    contents = path.read_bytes()
    for end in (3, 40, 400, len(contents) // 2):
        path.write_bytes(contents[:end])
        with pytest.raises(stepwell.ModelError, match=r"decoder.gguf: is not a valid GGUF file|lacks the tensor"):
            stepwell.compile(path, options={"dims": {"batch": 1, "length": 1, "past": 4, "outputs": 1}})
