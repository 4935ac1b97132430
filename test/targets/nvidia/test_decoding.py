"""Attention to past keys as exporters write it: repeated heads, a bit mask, 0 for weights that are NaN."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

NODE = helper.make_node
HEADS, SHARED, PAST, DEPTH = 2, 2, 700, 16


def _decoder(queries: int) -> onnx.ModelProto:
    keys = PAST + queries
    numbers = {
        "split": [1, HEADS, 1, keys, DEPTH],
        "wide": [1, HEADS, SHARED, keys, DEPTH],
        "joined": [1, HEADS * SHARED, keys, DEPTH],
    }
    nodes = []
    for name in "kv":
        nodes += [
            NODE("Concat", [f"past_{name}", name], [f"{name}s"], axis=2),
            NODE("Reshape", [f"{name}s", "split"], [f"{name}_split"]),
            NODE("Expand", [f"{name}_split", "wide"], [f"{name}_wide"]),
            NODE("Reshape", [f"{name}_wide", "joined"], [f"{name}_all"]),
        ]
    nodes += [
        NODE("Mul", ["q", "root"], ["q_scaled"]),
        NODE("Transpose", ["k_all"], ["k_turned"], perm=[0, 1, 3, 2]),
        NODE("Mul", ["k_turned", "root"], ["k_scaled"]),
        NODE("MatMul", ["q_scaled", "k_scaled"], ["products"]),
        NODE("Where", ["mask", "zero", "least"], ["added"]),
        NODE("Add", ["products", "added"], ["scores"]),
        NODE("Softmax", ["scores"], ["weights"], axis=-1),
        NODE("IsNaN", ["weights"], ["odd"]),
        NODE("Where", ["odd", "zero", "weights"], ["seen"]),
        NODE("MatMul", ["seen", "v_all"], ["y"]),
    ]
    constants = {name: np.array(sizes) for name, sizes in numbers.items()}
    constants |= {"root": np.float32(0.5), "zero": np.float32(0), "least": np.float32(-np.inf)}
    shapes = {
        "q": [1, HEADS * SHARED, queries, DEPTH],
        "past_k": [1, HEADS, PAST, DEPTH],
        "k": [1, HEADS, queries, DEPTH],
    }
    shapes |= {"past_v": shapes["past_k"], "v": shapes["k"]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    inputs.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, [queries, keys]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["q"])]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("queries", [1, 3])
def test_a_decoder_agrees_and_is_one_kernel(queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    model, random = _decoder(queries), np.random.default_rng(0)
    mask = random.random((queries, PAST + queries)) < 0.8
    mask[-1] = queries == 1  # with several queries, the last one attends to nothing
    given = {
        item.name: random.standard_normal([dim.dim_value for dim in item.type.tensor_type.shape.dim], np.float32)
        for item in model.graph.input
    }
    given["mask"] = mask
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, given)
    for target in ("cpu", "cuda:sm_80"):
        executable = stepwell.compile(model, target, options=stepwell.Options(cache=False))
        np.testing.assert_allclose(executable(**given), want, rtol=1e-4, atol=1e-5, err_msg=target)
    # Keys and values are each joined with the past; then the additions, then the attention.
    kinds = sorted(kernel.kind for kernel in executable.programs[0].kernels)
    assert kinds == ["attention", "elementwise", "movement"]
