"""Attention on warp groups in the layouts of models: interleaved heads, shared keys, transposed keys."""

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

OPTIONS = stepwell.Options(cache=False, fallback="error")
RNG = np.random.default_rng(0)


def model(nodes: list[onnx.NodeProto], shapes: dict[str, list[int]], result: list[int]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT16, result)
    scale = numpy_helper.from_array(np.array(0.125, np.float16), "scale")
    graph = helper.make_graph(nodes, "attention", inputs, [output], [scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def shared_heads() -> tuple[onnx.ModelProto, dict[str, list[int]]]:
    """Four heads of queries and two of keys, side by side in memory."""
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=4, kv_num_heads=2, is_causal=1)
    shapes = {"q": [1, 96, 256], "k": [1, 96, 128], "v": [1, 96, 128]}
    return model([node], shapes, [1, 96, 256]), shapes


def transposed_keys() -> tuple[onnx.ModelProto, dict[str, list[int]]]:
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    shapes = {"q": [1, 2, 80, 64], "k": [1, 2, 64, 200], "v": [1, 2, 200, 64]}
    return model(nodes, shapes, [1, 2, 80, 64]), shapes


@pytest.mark.parametrize("make", [shared_heads, transposed_keys])
def test_layouts(make, monkeypatch):
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    made, shapes = make()
    inputs = [RNG.standard_normal(shape).astype(np.float16) for shape in shapes.values()]
    on_gpu = stepwell.compile(made, target="cuda:sm_90a", options=OPTIONS)
    (program,) = on_gpu.programs
    ((_, code),) = program.objects.items()
    assert b"wgmma.mma_async" in code
    np.testing.assert_allclose(on_gpu(*inputs), stepwell.compile(made, options=OPTIONS)(*inputs), atol=3e-3)
