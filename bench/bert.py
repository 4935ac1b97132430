"""A BERT encoder as ONNX, node by node as torch's exporter writes it; by default with the sizes of all-MiniLM-L6-v2.

Attention is decomposed (MatMul, Div, Add, Softmax, MatMul around reshapes computed from Shape), GELU is its formula
with Erf, and the mask is computed from `attention_mask` by Unsqueeze, Cast, Sub and Mul. Weights are given, or random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .onnx_graph import OnnxGraph

LEAST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT encoder."""

    vocabulary: int = 30522
    positions: int = 512
    layers: int = 6
    hidden: int = 384
    heads: int = 12
    intermediate: int = 1536
    epsilon: float = 1e-12


@dataclass(kw_only=True)
class _Graph(OnnxGraph):
    """The graph of an encoder with these weights."""

    weights: Mapping[str, np.ndarray]

    def weight(self, name: str, transposed: bool = False) -> str:
        """Stores a weight of the model, transposed for MatMul if requested."""
        array = self.weights[name].T if transposed else self.weights[name]
        return self.store(f"onnx::MatMul_{name}" if transposed else name, array)

    def linear(self, scope: str, name: str, value: str) -> str:
        """Adds a dense layer."""
        product = self.add("MatMul", f"{scope}/MatMul", value, self.weight(f"{name}.weight", True))
        return self.add("Add", f"{scope}/Add", self.weight(f"{name}.bias"), product)

    def norm(self, scope: str, name: str, value: str, epsilon: float) -> str:
        """Adds a layer normalisation."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.add(
            "LayerNormalization", f"{scope}/LayerNormalization", value, scale, bias, axis=-1, epsilon=epsilon
        )


def random_weights(config: BertConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights with the names and shapes of transformers' BertModel, small enough for smooth attention."""
    rng = np.random.default_rng(seed)
    hidden, inner = config.hidden, config.intermediate
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocabulary, hidden),
        "embeddings.position_embeddings.weight": (config.positions, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
    }
    dense = [("attention.self.query", hidden, hidden), ("attention.self.key", hidden, hidden)]
    dense += [("attention.self.value", hidden, hidden), ("attention.output.dense", hidden, hidden)]
    dense += [("intermediate.dense", inner, hidden), ("output.dense", hidden, inner)]
    for layer in range(config.layers):
        for name, outputs, inputs in dense:
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (outputs, inputs)
            shapes[f"encoder.layer.{layer}.{name}.bias"] = (outputs,)
    weights = {name: (0.05 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in range(config.layers):
        norms += [f"encoder.layer.{layer}.{name}.LayerNorm" for name in ("attention.output", "output")]
    for norm in norms:
        weights[f"{norm}.weight"] = (1 + 0.1 * rng.standard_normal(hidden)).astype(np.float32)
        weights[f"{norm}.bias"] = (0.1 * rng.standard_normal(hidden)).astype(np.float32)
    return weights


def make_bert(config: BertConfig | None = None, weights: Mapping[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """Creates the encoder: input_ids, attention_mask, token_type_ids [batch, length] to last_hidden_state."""
    config = config or BertConfig()
    graph = _Graph(weights=random_weights(config) if weights is None else weights)
    value = _embeddings(graph, config)
    mask = _mask(graph)
    for layer in range(config.layers):
        value = _layer(graph, config, layer, value, mask)
    graph.nodes[-1].output[0] = "last_hidden_state"
    dims = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, dims)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*dims, config.hidden])]
    made = helper.make_graph(graph.nodes, "main_graph", inputs, outputs, list(graph.stored.values()))
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="pytorch")


def _embeddings(graph: _Graph, config: BertConfig) -> str:
    shape = graph.add("Shape", "/embeddings/Shape", "input_ids")
    length = graph.add("Gather", "/embeddings/Gather", shape, graph.constant("/embeddings/Constant", 1), axis=0)
    axes = graph.constant("/embeddings/Constant_1", [0])
    limit = graph.add("Unsqueeze", "/embeddings/Unsqueeze", length, axes)
    graph.stored["position_ids"] = numpy_helper.from_array(np.arange(config.positions)[None], "position_ids")
    bounds = [graph.constant(f"/embeddings/Constant_{2 + index}", [number]) for index, number in enumerate((0, 1, 1))]
    positions = graph.add("Slice", "/embeddings/Slice", "position_ids", bounds[0], limit, bounds[1], bounds[2])
    tables = (("word", "input_ids"), ("token_type", "token_type_ids"), ("position", positions))
    found = [
        graph.add(
            "Gather", f"/embeddings/{name}_embeddings/Gather", graph.weight(f"embeddings.{name}_embeddings.weight"), ids
        )
        for name, ids in tables
    ]
    value = graph.add("Add", "/embeddings/Add", found[0], found[1])
    value = graph.add("Add", "/embeddings/Add_1", value, found[2])
    return graph.norm("/embeddings/LayerNorm", "embeddings.LayerNorm", value, config.epsilon)


def _mask(graph: _Graph) -> str:
    first = graph.add("Unsqueeze", "/Unsqueeze", "attention_mask", graph.constant("/Constant", [1]))
    second = graph.add("Unsqueeze", "/Unsqueeze_1", first, graph.constant("/Constant_1", [2]))
    kept = graph.add("Cast", "/Cast", second, to=TensorProto.FLOAT)
    hidden = graph.add("Sub", "/Sub", graph.constant("/Constant_2", 1, np.float32), kept)
    return graph.add("Mul", "/Mul", hidden, graph.constant("/Constant_3", LEAST, np.float32))


def _layer(graph: _Graph, config: BertConfig, layer: int, value: str, mask: str) -> str:
    scope, name = f"/encoder/layer.{layer}", f"encoder.layer.{layer}"
    context = _attention(graph, config, f"{scope}/attention/self", f"{name}.attention.self", value, mask)
    output = graph.linear(f"{scope}/attention/output/dense", f"{name}.attention.output.dense", context)
    output = graph.add("Add", f"{scope}/attention/output/Add", output, value)
    attended = graph.norm(
        f"{scope}/attention/output/LayerNorm", f"{name}.attention.output.LayerNorm", output, config.epsilon
    )
    inner = graph.linear(f"{scope}/intermediate/dense", f"{name}.intermediate.dense", attended)
    inner = _gelu(graph, f"{scope}/intermediate/intermediate_act_fn", inner)
    output = graph.linear(f"{scope}/output/dense", f"{name}.output.dense", inner)
    output = graph.add("Add", f"{scope}/output/Add", output, attended)
    return graph.norm(f"{scope}/output/LayerNorm", f"{name}.output.LayerNorm", output, config.epsilon)


def _gelu(graph: _Graph, scope: str, value: str) -> str:
    scaled = graph.add("Div", f"{scope}/Div", value, graph.constant(f"{scope}/Constant", 2**0.5, np.float32))
    error = graph.add("Erf", f"{scope}/Erf", scaled)
    shifted = graph.add("Add", f"{scope}/Add", error, graph.constant(f"{scope}/Constant_1", 1, np.float32))
    product = graph.add("Mul", f"{scope}/Mul", value, shifted)
    return graph.add("Mul", f"{scope}/Mul_1", product, graph.constant(f"{scope}/Constant_2", 0.5, np.float32))


def _attention(graph: _Graph, config: BertConfig, scope: str, name: str, value: str, mask: str) -> str:
    query, key, values = (
        graph.linear(f"{scope}/{part}", f"{name}.{part}", value) for part in ("query", "key", "value")
    )
    orders = {"key": [0, 2, 3, 1]}
    heads = {
        part: graph.add(
            "Transpose",
            f"{scope}/{part}/Transpose",
            _reshaped(graph, f"{scope}/{part}", tensor, [config.heads, config.hidden // config.heads]),
            perm=orders.get(part, [0, 2, 1, 3]),
        )
        for part, tensor in (("query", query), ("key", key), ("value", values))
    }
    scores = graph.add("MatMul", f"{scope}/MatMul", heads["query"], heads["key"])
    root = graph.constant(f"{scope}/Constant", (config.hidden // config.heads) ** 0.5, np.float32)
    scores = graph.add("Add", f"{scope}/Add", graph.add("Div", f"{scope}/Div", scores, root), mask)
    weights = graph.add("Softmax", f"{scope}/Softmax", scores, axis=-1)
    context = graph.add("MatMul", f"{scope}/MatMul_1", weights, heads["value"])
    joined = graph.add("Transpose", f"{scope}/Transpose", context, perm=[0, 2, 1, 3])
    return _reshaped(graph, scope, joined, [config.hidden])


def _reshaped(graph: _Graph, scope: str, value: str, trailing: list[int]) -> str:
    """Reshapes `value` to [batch, length, trailing...], with sizes computed from its own shape."""
    shape = graph.add("Shape", f"{scope}/Shape", value)
    parts = []
    for axis in (0, 1):
        index = graph.constant(f"{scope}/Constant_s{axis}", axis)
        dim = graph.add("Gather", f"{scope}/Gather_{axis}", shape, index, axis=0)
        parts.append(
            graph.add("Unsqueeze", f"{scope}/Unsqueeze_{axis}", dim, graph.constant(f"{scope}/Constant_a{axis}", [0]))
        )
    parts += [graph.constant(f"{scope}/Constant_t{index}", [dim]) for index, dim in enumerate(trailing)]
    return graph.add("Reshape", f"{scope}/Reshape", value, graph.add("Concat", f"{scope}/Concat", *parts, axis=0))
