"""Small ONNX decoders with random weights, in the form of ONNX Runtime GenAI, for documentation and tests.

It needs the package `tokenizers`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HIDDEN, HEADS, KEY_HEADS, DEPTH, INNER, VOCABULARY, CONTEXT, LAYERS = 64, 4, 2, 16, 96, 258, 64, 2
BLOCK = 32


class _Builder:
    """Collects the nodes and the weights of a decoder."""

    def __init__(self, bits: int, accuracy: int, dtype: type[np.floating]) -> None:
        self.dtype = dtype
        self.rng, self.bits, self.accuracy = np.random.default_rng(0), bits, accuracy
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, array: np.ndarray) -> str:
        floats = array.astype(self.dtype) if array.dtype == np.float32 else array
        self.weights.append(numpy_helper.from_array(floats, name))
        return name

    def node(self, kind: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        domain = attributes.pop("domain", "")
        name = f"/{outputs[0]}/{kind}"
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def norm(self, value: str, name: str) -> str:
        scale = self.weight(f"{name}.weight", 1 + 0.1 * self.rng.standard_normal(HIDDEN, np.float32))
        return self.node("SimplifiedLayerNormalization", [value, scale], name, axis=-1, epsilon=1e-5, stash_type=1)

    def linear(self, value: str, name: str, inputs: int, outputs: int) -> str:
        if not self.bits:
            matrix = self.rng.standard_normal((inputs, outputs), np.float32) / np.float32(np.sqrt(inputs))
            return self.node("MatMul", [value, self.weight(f"{name}.weight", matrix)], name)
        blocks = inputs // BLOCK
        numbers = self.rng.integers(0, 256, (outputs, blocks, BLOCK * self.bits // 8), np.uint8)
        scales = (0.2 + 0.1 * self.rng.random((outputs, blocks), np.float32)) / np.float32(np.sqrt(inputs))
        parts = [self.weight(f"{name}.qweight", numbers), self.weight(f"{name}.scales", scales.reshape(-1))]
        options = {"K": inputs, "N": outputs, "bits": self.bits, "block_size": BLOCK, "accuracy_level": self.accuracy}
        return self.node("MatMulNBits", [value, *parts], name, domain="com.microsoft", **options)


def genai_decoder(
    bits: int = 0, accuracy: int = 0, is_packed: bool = False, dtype: type[np.floating] = np.float32, **attention: Any
) -> onnx.ModelProto:
    """Returns a decoder as the model builder of ONNX Runtime GenAI writes it.

    Args:
        bits: bits of a weight, in blocks; 0 for floats.
        accuracy: the accuracy level of products with blocks; at 4, rows are rounded to 8 bits.
        is_packed: whether queries, keys and values are one product.
        dtype: the type of activations, keys and values, and of weights without blocks: float32 or float16.
        attention: further attributes of attention.
    """
    b = _Builder(bits, accuracy, dtype)
    angles = np.arange(CONTEXT)[:, None] * 10000.0 ** -(np.arange(0, DEPTH, 2) / DEPTH)
    tables = [b.weight("cos_cache", np.cos(angles).astype(np.float32))]
    tables.append(b.weight("sin_cache", np.sin(angles).astype(np.float32)))
    one = b.weight("one", np.array([1], np.int64))
    b.node("ReduceSum", ["attention_mask", one], "count", keepdims=0)
    b.node("Sub", ["count", one], "last_64")
    b.node("Cast", ["last_64"], "last", to=TensorProto.INT32)
    b.node("Shape", ["attention_mask"], "mask_shape")
    b.node("Gather", ["mask_shape", b.weight("one_0d", np.array(1, np.int64))], "total_64", axis=0)
    b.node("Cast", ["total_64"], "total", to=TensorProto.INT32)
    table = b.weight("embed", b.rng.standard_normal((VOCABULARY, HIDDEN), np.float32))
    value = b.node("Gather", [table, "input_ids"], "embedded")
    kinds = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "do_rotary": 1, "scale": DEPTH**-0.5, **attention}
    for layer in range(LAYERS):
        at = f"layers.{layer}"
        normal = b.norm(value, f"{at}.input_norm")
        widths = {"q": HEADS * DEPTH, "k": KEY_HEADS * DEPTH, "v": KEY_HEADS * DEPTH}
        if is_packed:
            parts = [b.linear(normal, f"{at}.qkv_proj", HIDDEN, sum(widths.values())), "", ""]
        else:
            parts = [b.linear(normal, f"{at}.{part}_proj", HIDDEN, width) for part, width in widths.items()]
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        made = [f"{at}.attn", *(f"present.{layer}.{part}" for part in ("key", "value"))]
        operands = [*parts, *past, "last", "total", *tables]
        b.node("GroupQueryAttention", operands, *made, domain="com.microsoft", **kinds)
        value = b.node("Add", [value, b.linear(made[0], f"{at}.o_proj", HIDDEN, HIDDEN)], f"{at}.attended")
        normal = b.norm(value, f"{at}.mlp_norm")
        gate = b.linear(normal, f"{at}.gate", HIDDEN, INNER)
        b.node("Sigmoid", [gate], f"{at}.sigmoid")
        b.node("Mul", [gate, f"{at}.sigmoid"], f"{at}.silu")
        b.node("Mul", [f"{at}.silu", b.linear(normal, f"{at}.up", HIDDEN, INNER)], f"{at}.opened")
        value = b.node("Add", [value, b.linear(f"{at}.opened", f"{at}.down", INNER, HIDDEN)], f"{at}.made")
    b.linear(b.norm(value, "final_norm"), "logits", HIDDEN, VOCABULARY)
    return _model(b)


def _model(b: _Builder) -> onnx.ModelProto:
    def port(name: str, kind: int, dims: Sequence[int | str]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, dims)

    def caches(when: str, length: str) -> list[onnx.ValueInfoProto]:
        dims = ["batch_size", KEY_HEADS, length, DEPTH]
        names = [f"{when}.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
        return [port(name, kind, dims) for name in names]

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(b.dtype))
    tokens = port("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])
    mask = port("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])
    logits = port("logits", kind, ["batch_size", "sequence_length", VOCABULARY])
    inputs = [tokens, mask, *caches("past_key_values", "past_sequence_length")]
    outputs = [logits, *caches("present", "total_sequence_length")]
    graph = helper.make_graph(b.nodes, "decoder", inputs, outputs, b.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def write_genai(folder: Path, model: onnx.ModelProto) -> Path:
    """Writes a folder of ONNX Runtime GenAI with a decoder and a tokenizer of bytes, and returns it."""
    folder.mkdir(exist_ok=True)
    _write_tokenizer(folder)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    made = {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    decoder = {"filename": "model.onnx", "inputs": {"input_ids": "input_ids", **names}, "outputs": made}
    settings = {"model": {"type": "llama", "context_length": CONTEXT, "vocab_size": VOCABULARY, "decoder": decoder}}
    (folder / "genai_config.json").write_text(json.dumps(settings))
    return folder


def _write_tokenizer(folder: Path) -> None:
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE({**letters, "<s>": 256, "</s>": 257}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
