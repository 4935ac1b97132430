"""Decoders with random weights as GGUF files, for tests and measurements.

It needs the package `gguf`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np


@dataclass(frozen=True)
class GgufConfig:
    """The sizes of a decoder.

    Attributes:
        architecture: "llama", "qwen2" or "qwen3".
        kind: the type of the matrices, such as "Q4_0" or "F32".
        layers: number of layers.
        hidden: elements of a token between layers.
        heads: heads of queries.
        key_heads: heads of keys and values.
        intermediate: elements within a perceptron.
        vocabulary: number of tokens.
        context: number of tokens in a text.
        experts: number of perceptrons of a layer of which each token takes some; 0 for one perceptron.
        used_experts: number of perceptrons that a token takes.
        is_tied: whether the logits are products with the table of embeddings.
        settings: further settings of the file, such as those of a tokenizer: lists of strings or integers, and strings.
    """

    architecture: str = "llama"
    kind: str = "Q4_0"
    layers: int = 2
    hidden: int = 256
    heads: int = 8
    key_heads: int = 2
    intermediate: int = 512
    vocabulary: int = 320
    context: int = 1024
    experts: int = 0
    used_experts: int = 2
    is_tied: bool = False
    settings: dict[str, str | int | list[str] | list[int]] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """The elements of a key of one head."""
        return self.hidden // self.heads


def byte_tokenizer(*more: str) -> dict[str, str | int | list[str] | list[int]]:
    """Returns the settings of a tokenizer of single bytes, and two merges; it needs the package `tokenizers`.

    Args:
        more: control tokens besides those for the beginning and the end of a text.
    """
    from tokenizers.pre_tokenizers import ByteLevel

    plain = [*sorted(ByteLevel.alphabet()), "th", "the"]
    control = ["<s>", "</s>", *more]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": [*plain, *control],
        "tokenizer.ggml.token_type": [1] * len(plain) + [3] * len(control),
        "tokenizer.ggml.merges": ["t h", "th e"],
        "tokenizer.ggml.bos_token_id": len(plain),
        "tokenizer.ggml.eos_token_id": len(plain) + 1,
    }


def write_decoder(path: Path, config: GgufConfig, seed: int = 0) -> None:
    """Writes a decoder with random weights."""
    writer, rng = gguf.GGUFWriter(path, config.architecture), np.random.default_rng(seed)
    _write_settings(writer, config)
    kind, depth = gguf.GGMLQuantizationType[config.kind], config.depth

    def matrix(name: str, *shape: int) -> None:
        weight = (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(weight, kind), raw_dtype=kind)

    def vector(name: str, size: int, mean: float = 1.0) -> None:
        writer.add_tensor(name, (mean + 0.1 * rng.standard_normal(size)).astype(np.float32))

    matrix("token_embd", config.vocabulary, config.hidden)
    sizes = {"q": config.heads * depth, "k": config.key_heads * depth, "v": config.key_heads * depth}
    for layer in range(config.layers):
        scope = f"blk.{layer}"
        for part, size in sizes.items():
            matrix(f"{scope}.attn_{part}", size, config.hidden)
            if config.architecture == "qwen2":
                vector(f"{scope}.attn_{part}.bias", size, 0.0)
            if config.architecture == "qwen3" and part != "v":
                vector(f"{scope}.attn_{part}_norm.weight", depth)
        matrix(f"{scope}.attn_output", config.hidden, config.heads * depth)
        stacked, end = ((config.experts,), "_exps") if config.experts else ((), "")
        for part in ("gate", "up"):
            matrix(f"{scope}.ffn_{part}{end}", *stacked, config.intermediate, config.hidden)
        matrix(f"{scope}.ffn_down{end}", *stacked, config.hidden, config.intermediate)
        if config.experts:
            router = rng.standard_normal((config.experts, config.hidden)).astype(np.float32)
            writer.add_tensor(f"{scope}.ffn_gate_inp.weight", router)
        for part in ("attn_norm", "ffn_norm"):
            vector(f"{scope}.{part}.weight", config.hidden)
    vector("output_norm.weight", config.hidden)
    if not config.is_tied:
        matrix("output", config.vocabulary, config.hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_settings(writer: gguf.GGUFWriter, config: GgufConfig) -> None:
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_feed_forward_length(config.intermediate)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.key_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(config.depth)
    writer.add_vocab_size(config.vocabulary)
    if config.experts:
        writer.add_expert_count(config.experts)
        writer.add_expert_used_count(config.used_experts)
    for name, value in config.settings.items():
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_uint32(name, value)
