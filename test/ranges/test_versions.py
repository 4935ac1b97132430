"""Versions of kernels: each size of a range runs the one that its entry of the table of extents selects."""

from __future__ import annotations

import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 64


def convolutions() -> onnx.ModelProto:
    """Two padded convolutions: the first one's result is masked, by numbers that the program reads from the table."""
    random = np.random.default_rng(0)
    weights = [random.standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32) / 24 for _ in range(2)]
    window = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first", **window),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["y"], "second", **window),
    ]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, "height", "width"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CHANNELS, "down", "across"])
    constants = [numpy_helper.from_array(weight, f"w{number}") for number, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "convolutions", [image], [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_each_size_runs_its_version() -> None:
    model = convolutions()
    ranges = {"height": (4, 80), "width": (4, 80)}
    ranged = stepwell.compile(model, threads=1, options=stepwell.Options(dims=ranges, cache=False))
    used = set()
    for size in (4, 12, 28, 80):
        x = np.random.default_rng(size).standard_normal((1, CHANNELS, size, size), np.float32)
        sizes = stepwell.Options(dims={"height": size, "width": size}, cache=False)
        alone = stepwell.compile(model, threads=1, options=sizes)
        np.testing.assert_allclose(ranged(x), alone(x), rtol=1e-4, atol=1e-4)
        kernels = ranged.profile({"x": x}, 1).record()["kernels"]
        (product,) = [item for item in kernels if item["class"] == "convolution" and "first" in item["nodes"]]
        used.add(product["kernel"])
    assert len(used) > 1
