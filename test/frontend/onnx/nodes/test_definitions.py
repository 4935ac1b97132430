"""Operators imported by their ONNX definition, old opsets, and additions of the newest ones."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import helper
from onnx.reference import ReferenceEvaluator
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.onnx.importer import import_model

RNG = np.random.default_rng(0)


def same_as_reference(node: onnx.NodeProto, inputs: dict[str, np.ndarray], opset: int, rtol: float = 1e-5) -> None:
    """Compares one node with ONNX's reference evaluator."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "test", infos, outputs)
    domains = [helper.make_opsetid(node.domain, 1)] if node.domain else []
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *domains], ir_version=10)
    expected = ReferenceEvaluator(model).run(None, inputs)
    for output, array in zip(model.graph.output, expected, strict=True):
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    imported = import_model(model, ir.Context())
    result = evaluate(imported.module, "main", list(inputs.values()), imported.parameters)
    for got, wanted in zip(result, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_loss(reduction: str) -> None:
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y", "p"], reduction=reduction, ignore_index=2)
    x, target = RNG.standard_normal((3, 5, 2), np.float32), RNG.integers(0, 5, (3, 2))
    same_as_reference(node, {"x": x, "t": target}, 13)


def test_attention_with_a_limit_of_its_scores() -> None:
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], softcap=2.0)
    inputs = {name: RNG.standard_normal((2, 3, 4, 8), np.float32) for name in "qkv"}
    same_as_reference(node, inputs, 24)


def test_attention_with_its_scores_as_output() -> None:
    node = helper.make_node("Attention", ["q", "k", "v"], ["y", "", "", "s"], qk_matmul_output_mode=3)
    inputs = {name: RNG.standard_normal((2, 3, 4, 8), np.float32) for name in "qkv"}
    same_as_reference(node, inputs, 24)


def test_flexible_attention() -> None:
    """An operator of another domain, defined by graphs in its attributes."""
    scores = [helper.make_tensor_value_info(name, 1, ["B", "H", "L", "S"]) for name in ("s", "t")]
    body = helper.make_graph([helper.make_node("Tanh", ["s"], ["t"])], "limit", scores[:1], scores[1:])
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", score_mod=body)
    inputs = {name: RNG.standard_normal((2, 3, 4, 8), np.float32) for name in "qkv"}
    same_as_reference(node, inputs, 26)


def test_linear_attention() -> None:
    """An operator whose definition contains a Scan."""
    node = helper.make_node(
        "LinearAttention", ["q", "k", "v"], ["y", "s"], update_rule="linear", q_num_heads=2, kv_num_heads=2
    )
    inputs = {name: RNG.standard_normal((2, 3, 8), np.float32) for name in "qkv"}
    same_as_reference(node, inputs, 27, rtol=1e-4)


def test_mod_of_floats_has_the_sign_of_the_divisor() -> None:
    x, y = (RNG.standard_normal(40, np.float32) * 3 for _ in range(2))
    x[:4], y[:4] = [0.0, -0.0, 5, -5], [-1, 1, np.inf, np.inf]
    graph_inputs = [helper.make_tensor_value_info(name, 1, (40,)) for name in "xy"]
    outputs = [helper.make_tensor_value_info("z", 1, (40,))]
    graph = helper.make_graph([helper.make_node("Mod", ["x", "y"], ["z"])], "test", graph_inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    imported = import_model(model, ir.Context())
    (result,) = evaluate(imported.module, "main", [x, y], imported.parameters)
    np.testing.assert_array_equal(result, np.mod(x, y))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(np.mod(x, y)))


def test_space_to_depth_by_channel() -> None:
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")
    x = np.arange(96, dtype=np.float32).reshape(2, 2, 4, 6)
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info("y", 1, (2, 8, 2, 3))],
    )
    imported = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)]), ir.Context())
    (result,) = evaluate(imported.module, "main", [x], imported.parameters)
    expected = x.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 8, 2, 3)
    np.testing.assert_array_equal(result, expected)


def test_opset_with_another_broadcasting() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], axis=2, broadcast=1)
    x, b = RNG.standard_normal((2, 3, 4), np.float32), RNG.standard_normal(4, np.float32)
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("x", 1, x.shape), helper.make_tensor_value_info("b", 1, b.shape)],
        [helper.make_tensor_value_info("y", 1, x.shape)],
    )
    imported = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)]), ir.Context())
    (result,) = evaluate(imported.module, "main", [x, b], imported.parameters)
    np.testing.assert_array_equal(result, x + b)
