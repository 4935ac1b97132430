"""Tensors without elements, scalars, and outputs that nothing computes."""

from __future__ import annotations

import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper

F32 = np.float32


def compile_nodes(nodes: list[onnx.NodeProto], inputs: dict[str, list], outputs: list[str]) -> stepwell.Executable:
    """Compiles a model with float32 inputs of these shapes."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "small", ports, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))


def test_a_scalar() -> None:
    run = compile_nodes([helper.make_node("Exp", ["x"], ["y"])], {"x": []}, ["y"])
    np.testing.assert_allclose(run(np.float32(1)), np.e, rtol=1e-6)


def test_no_rows() -> None:
    run = compile_nodes([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ["n", 3], "w": [3, 4]}, ["y"])
    assert run(np.zeros((0, 3), F32), np.ones((3, 4), F32)).shape == (0, 4)
    np.testing.assert_array_equal(run(np.ones((1, 3), F32), np.ones((3, 4), F32)), np.full((1, 4), 3, F32))


def test_a_sum_of_nothing_is_zero() -> None:
    run = compile_nodes([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [2, "k"], "w": ["k", 4]}, ["y"])
    np.testing.assert_array_equal(run(np.zeros((2, 0), F32), np.zeros((0, 4), F32)), np.zeros((2, 4), F32))


def test_nothing_adds_nothing_to_a_concat() -> None:
    run = compile_nodes([helper.make_node("Concat", ["x", "z"], ["y"], axis=0)], {"x": [3], "z": ["n"]}, ["y"])
    np.testing.assert_array_equal(run(np.ones(3, F32), np.zeros(0, F32)), np.ones(3, F32))


def test_outputs_that_nothing_computes() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Constant", [], ["fixed"], value_floats=[1.0, 2.0]),
        helper.make_node("Exp", ["x"], ["y"]),
        helper.make_node("Identity", ["y"], ["twice"]),
    ]
    x = np.array([0, 1, 2], F32)
    same, fixed, y, twice = compile_nodes(nodes, {"x": [3]}, ["same", "fixed", "y", "twice"])(x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(fixed, [1, 2])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(twice, y)


def test_a_literal_of_nothing() -> None:
    nodes = [
        helper.make_node("Constant", [], ["e"], value=helper.make_tensor("e", TensorProto.FLOAT, [3, 0], [])),
        helper.make_node("Add", ["x", "e"], ["0"]),
        helper.make_node("Trilu", ["0"], ["y"], upper=0),
    ]
    assert compile_nodes(nodes, {"x": [3, 0]}, ["y"])(np.zeros((3, 0), F32)).shape == (3, 0)
