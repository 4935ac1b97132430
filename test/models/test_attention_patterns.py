"""Attention decomposed as by exporters: it becomes one kernel, and results match the model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from stepwell.driver.compile.compilation import Compilation
from stepwell.driver.sources.reading import read_source

BATCH, LENGTH, HEADS, DEPTH = 2, 19, 4, 8
WIDTH = HEADS * DEPTH


@dataclass
class Graph:
    """A model under construction."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node and returns its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def weight(self, value: Any, dtype: type = np.float32) -> str:
        """Adds a weight."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape: int) -> str:
        """Adds a weight of small random numbers."""
        return self.weight(0.3 * self.rng.standard_normal(shape))

    def linear(self, value: str, width: int) -> str:
        """Adds a dense layer."""
        return self.add("Add", self.random(width), self.add("MatMul", value, self.random(WIDTH, width)))

    def heads(self, value: str, permutation: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        """Reshapes [batch, length, width] to [batch, heads, length, depth], or to another order of these dimensions."""
        split = self.add("Reshape", value, self.weight([0, 0, HEADS, DEPTH], np.int64))
        return self.add("Transpose", split, perm=permutation)

    def model(self, result: str) -> onnx.ModelProto:
        """Returns the model from x to `result`."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, LENGTH, WIDTH])
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "attention", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def joined(graph: Graph, context: str) -> str:
    merged = graph.add("Transpose", context, perm=(0, 2, 1, 3))
    return graph.add("Reshape", merged, graph.weight([0, 0, WIDTH], np.int64))


def bert(graph: Graph) -> str:
    """Three projections; the scores are divided and an additive mask is applied."""
    query, value = graph.heads(graph.linear("x", WIDTH)), graph.heads(graph.linear("x", WIDTH))
    key = graph.heads(graph.linear("x", WIDTH), (0, 2, 3, 1))
    scores = graph.add("Div", graph.add("MatMul", query, key), graph.weight(np.sqrt(DEPTH)))
    mask = graph.weight(np.where(np.arange(LENGTH) < 11, 0, np.finfo(np.float32).min)[None, None, None])
    weights = graph.add("Softmax", graph.add("Add", scores, mask), axis=-1)
    return joined(graph, graph.add("MatMul", weights, value))


def vision(graph: Graph) -> str:
    """One projection, split after a transpose; the query is scaled."""
    whole = graph.linear("x", 3 * WIDTH)
    split = graph.add("Reshape", whole, graph.weight([0, 0, 3, HEADS, DEPTH], np.int64))
    turned = graph.add("Transpose", split, perm=(2, 0, 3, 1, 4))
    query, key, value = (graph.add("Gather", turned, graph.weight(index, np.int64), axis=0) for index in range(3))
    scaled = graph.add("Mul", query, graph.weight(DEPTH**-0.5))
    scores = graph.add("MatMul", scaled, graph.add("Transpose", key, perm=(0, 1, 3, 2)))
    return joined(graph, graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value))


def scaled_dot_product(graph: Graph) -> str:
    """Form of torch's scaled_dot_product_attention: both operands are scaled by the root, and a causal mask selects."""
    query, value = graph.heads(graph.linear("x", WIDTH)), graph.heads(graph.linear("x", WIDTH))
    key = graph.add("Transpose", graph.heads(graph.linear("x", WIDTH)), perm=(0, 1, 3, 2))
    root = graph.weight(DEPTH**-0.25)
    scores = graph.add("MatMul", graph.add("Mul", query, root), graph.add("Mul", key, root))
    causal = graph.weight(np.tri(LENGTH), np.bool_)
    masked = graph.add("Where", causal, scores, graph.weight(-np.inf))
    return joined(graph, graph.add("MatMul", graph.add("Softmax", masked, axis=-1), value))


def joined_batches(graph: Graph) -> str:
    """Products of three dimensions with merged batch and heads, as in torch's MultiheadAttention."""
    shape = graph.weight([BATCH * HEADS, LENGTH, DEPTH], np.int64)
    query, key, value = (graph.add("Reshape", graph.heads(graph.linear("x", WIDTH)), shape) for _ in range(3))
    scaled = graph.add("Mul", query, graph.weight(DEPTH**-0.5))
    scores = graph.add("MatMul", scaled, graph.add("Transpose", key, perm=(0, 2, 1)))
    context = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    return joined(graph, graph.add("Reshape", context, graph.weight([BATCH, HEADS, LENGTH, DEPTH], np.int64)))


@pytest.mark.parametrize("build", [bert, vision, scaled_dot_product, joined_batches])
def test_one_kernel(build: Callable[[Graph], str]) -> None:
    graph = Graph()
    model = graph.model(build(graph))
    x = np.random.default_rng(1).standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    got = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))(x=x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    kernels = Compilation().program(read_source(model), {"x": x.shape}).kernels
    classes = sorted(kernel.kind for kernel in kernels)
    assert classes == ["attention", "contraction"]
