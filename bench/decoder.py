"""A step of a decoder as ONNX, as exporters write it: keys and values of the past are inputs, those of all are outputs.

Layers are those of GPT-2: layer normalisation, attention, and a multilayer perceptron with GELU. `past.i.key` and
`past.i.value` are [batch, key_heads, past, depth]; `present.i.key` and `present.i.value` are those with the keys and
values of the new tokens behind them. The causal mask is computed from the sizes, and combined with `attention_mask`
[batch, past + length]; or else `attention_mask` is [batch, 1, length, past + length] and is added to the scores.

If several heads share a key, keys and values are repeated by Unsqueeze, Expand and Reshape. Weights are random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from .onnx_graph import OnnxGraph

LEAST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a decoder."""

    vocabulary: int = 1000
    positions: int = 1024
    layers: int = 2
    hidden: int = 128
    heads: int = 4
    key_heads: int = 4
    intermediate: int = 512
    computes_mask: bool = True
    epsilon: float = 1e-5

    @property
    def depth(self) -> int:
        """The elements of one key of one head."""
        return self.hidden // self.heads


LARGE = DecoderConfig(vocabulary=16384, layers=12, hidden=768, heads=12, key_heads=12, intermediate=3072)
"""About 110 million weights."""


@dataclass(kw_only=True)
class _Graph(OnnxGraph):
    """The graph of a step of a decoder with random weights."""

    config: DecoderConfig
    rng: np.random.Generator

    def weight(self, name: str, *shape: int, scale: float = 0.05, mean: float = 0.0) -> str:
        """Stores a random weight of the model."""
        return self.store(name, (mean + scale * self.rng.standard_normal(shape, np.float32)).astype(np.float32))

    def linear(self, scope: str, value: str, inputs: int, outputs: int) -> str:
        """Adds a dense layer."""
        product = self.add("MatMul", f"{scope}/MatMul", value, self.weight(f"{scope}.weight", inputs, outputs))
        return self.add("Add", f"{scope}/Add", self.weight(f"{scope}.bias", outputs), product)

    def norm(self, scope: str, value: str) -> str:
        """Adds a layer normalisation."""
        hidden = self.config.hidden
        scale, bias = self.weight(f"{scope}.weight", hidden, scale=0.1, mean=1), self.weight(f"{scope}.bias", hidden)
        name = f"{scope}/LayerNormalization"
        return self.add("LayerNormalization", name, value, scale, bias, axis=-1, epsilon=self.config.epsilon)

    def dim(self, scope: str, value: str, axis: int) -> str:
        """Adds the size of a dimension, as a tensor of one element."""
        shape = self.add("Shape", f"{scope}/Shape", value)
        return self.add("Gather", f"{scope}/Gather", shape, self.constant(f"{scope}/axis", [axis]), axis=0)

    def shaped(self, scope: str, value: str, sizes: list[str | int]) -> str:
        """Adds a Reshape to sizes that are values of the graph, or numbers."""
        parts = [self.constant(f"{scope}/size_{n}", [s]) if isinstance(s, int) else s for n, s in enumerate(sizes)]
        return self.add("Reshape", f"{scope}/Reshape", value, self.add("Concat", f"{scope}/Concat", *parts, axis=0))


def make_decoder(config: DecoderConfig | None = None, seed: int = 0) -> onnx.ModelProto:
    """Creates the step: input_ids, position_ids [batch, length], attention_mask, and the past.

    The outputs are logits [batch, length, vocabulary], and the present.
    """
    config = config or DecoderConfig()
    graph = _Graph(config=config, rng=np.random.default_rng(seed))
    words = graph.weight("wte", config.vocabulary, config.hidden)
    value = graph.add(
        "Add",
        "/embeddings/Add",
        graph.add("Gather", "/wte/Gather", words, "input_ids"),
        graph.add("Gather", "/wpe/Gather", graph.weight("wpe", config.positions, config.hidden), "position_ids"),
    )
    mask = _mask(graph) if config.computes_mask else "attention_mask"
    for layer in range(config.layers):
        value = _layer(graph, layer, value, mask)
    value = graph.norm("/ln_f", value)
    head = graph.add("Transpose", "/head/Transpose", words, perm=[1, 0])
    graph.nodes.append(helper.make_node("MatMul", [value, head], ["logits"], name="/head/MatMul"))
    return helper.make_model(
        helper.make_graph(graph.nodes, "main_graph", *_interface(config), list(graph.stored.values())),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="pytorch",
    )


def _interface(config: DecoderConfig) -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
    def info(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    def cache(name: str, length: str) -> list[onnx.ValueInfoProto]:
        return [
            info(f"{name}.{layer}.{part}", TensorProto.FLOAT, "batch", config.key_heads, length, config.depth)
            for layer in range(config.layers)
            for part in ("key", "value")
        ]

    inputs = [info(name, TensorProto.INT64, "batch", "length") for name in ("input_ids", "position_ids")]
    if config.computes_mask:
        inputs.append(info("attention_mask", TensorProto.INT64, "batch", "past + length"))
    else:
        inputs.append(info("attention_mask", TensorProto.FLOAT, "batch", 1, "length", "past + length"))
    logits = info("logits", TensorProto.FLOAT, "batch", "length", config.vocabulary)
    return [*inputs, *cache("past", "past")], [logits, *cache("present", "past + length")]


def _mask(graph: _Graph) -> str:
    """Adds the mask [batch, 1, length, past + length]: 0 where a token attends, and the least number elsewhere."""
    total, length = graph.dim("/mask/total", "attention_mask", 1), graph.dim("/mask/length", "input_ids", 1)
    first, zero, one = graph.constant("/mask/first", [0]), graph.constant("/mask/0", 0), graph.constant("/mask/1", 1)
    last = graph.add("Squeeze", "/mask/Squeeze", total, first)
    keys = graph.add("Range", "/mask/keys/Range", zero, last, one)
    begin = graph.add("Sub", "/mask/Sub", last, graph.add("Squeeze", "/mask/Squeeze_1", length, first))
    queries = graph.add("Range", "/mask/queries/Range", begin, last, one)
    rows = graph.add("Unsqueeze", "/mask/Unsqueeze", queries, graph.constant("/mask/axis_1", [1]))
    is_earlier = graph.add("LessOrEqual", "/mask/LessOrEqual", keys, rows)
    given = graph.add("Cast", "/mask/Cast", "attention_mask", to=TensorProto.BOOL)
    given = graph.add("Unsqueeze", "/mask/Unsqueeze_1", given, graph.constant("/mask/axes", [1, 2]))
    kept = graph.add("And", "/mask/And", given, is_earlier)
    most, least = graph.constant("/mask/most", 0, np.float32), graph.constant("/mask/least", LEAST, np.float32)
    return graph.add("Where", "/mask/Where", kept, most, least)


def _layer(graph: _Graph, layer: int, value: str, mask: str) -> str:
    config, scope = graph.config, f"/h.{layer}"
    attended = _attention(graph, layer, graph.norm(f"{scope}/ln_1", value), mask)
    value = graph.add("Add", f"{scope}/Add", attended, value)
    inner = graph.norm(f"{scope}/ln_2", value)
    inner = _gelu(graph, f"{scope}/act", graph.linear(f"{scope}/fc", inner, config.hidden, config.intermediate))
    inner = graph.linear(f"{scope}/proj", inner, config.intermediate, config.hidden)
    return graph.add("Add", f"{scope}/Add_1", value, inner)


def _gelu(graph: _Graph, scope: str, value: str) -> str:
    scaled = graph.add("Div", f"{scope}/Div", value, graph.constant(f"{scope}/root", 2**0.5, np.float32))
    error = graph.add("Erf", f"{scope}/Erf", scaled)
    shifted = graph.add("Add", f"{scope}/Add", error, graph.constant(f"{scope}/one", 1, np.float32))
    product = graph.add("Mul", f"{scope}/Mul", value, shifted)
    return graph.add("Mul", f"{scope}/Mul_1", product, graph.constant(f"{scope}/half", 0.5, np.float32))


def _attention(graph: _Graph, layer: int, value: str, mask: str) -> str:
    config, scope = graph.config, f"/h.{layer}/attn"
    batch, length = graph.dim(f"{scope}/batch", "input_ids", 0), graph.dim(f"{scope}/length", "input_ids", 1)
    heads = {}
    for part, count in (("query", config.heads), ("key", config.key_heads), ("value", config.key_heads)):
        rows = graph.linear(f"{scope}/{part}", value, config.hidden, count * config.depth)
        rows = graph.shaped(f"{scope}/{part}", rows, [batch, length, count, config.depth])
        heads[part] = graph.add("Transpose", f"{scope}/{part}/Transpose", rows, perm=[0, 2, 1, 3])
    for part in ("key", "value"):
        joined = f"present.{layer}.{part}"
        inputs = [f"past.{layer}.{part}", heads[part]]
        graph.nodes.append(helper.make_node("Concat", inputs, [joined], name=f"{scope}/{part}/Concat", axis=2))
        heads[part] = _repeated(graph, f"{scope}/{part}/repeat", joined, batch)
    transposed = graph.add("Transpose", f"{scope}/Transpose", heads["key"], perm=[0, 1, 3, 2])
    scores = graph.add("MatMul", f"{scope}/MatMul", heads["query"], transposed)
    root = graph.constant(f"{scope}/root", config.depth**0.5, np.float32)
    scores = graph.add("Add", f"{scope}/Add", graph.add("Div", f"{scope}/Div", scores, root), mask)
    weights = graph.add("Softmax", f"{scope}/Softmax", scores, axis=-1)
    context = graph.add("MatMul", f"{scope}/MatMul_1", weights, heads["value"])
    rows = graph.add("Transpose", f"{scope}/Transpose_1", context, perm=[0, 2, 1, 3])
    rows = graph.shaped(f"{scope}/join", rows, [batch, length, config.hidden])
    return graph.linear(f"{scope}/out", rows, config.hidden, config.hidden)


def _repeated(graph: _Graph, scope: str, value: str, batch: str) -> str:
    """Repeats keys or values for the heads that share them."""
    config = graph.config
    shared = config.heads // config.key_heads
    if shared == 1:
        return value
    total = graph.dim(f"{scope}/total", value, 2)
    apart = graph.add("Unsqueeze", f"{scope}/Unsqueeze", value, graph.constant(f"{scope}/axis_2", [2]))
    counts = [
        graph.constant(f"{scope}/{name}", [count])
        for name, count in (("heads", config.key_heads), ("shared", shared), ("depth", config.depth))
    ]
    sizes = graph.add("Concat", f"{scope}/sizes", batch, counts[0], counts[1], total, counts[2], axis=0)
    wide = graph.add("Expand", f"{scope}/Expand", apart, sizes)
    return graph.shaped(f"{scope}/join", wide, [batch, config.heads, total, config.depth])
