"""Tiny models for the tuner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save(path: Path, nodes: list, shapes: dict, weights: dict, output: tuple[int, ...]) -> Path:
    """Writes a model of float32 with random weights; its output is `y`."""
    random = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array((random.random(shape, np.float32) - 0.5) / 8, name) for name, shape in weights.items()
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def product(path: Path) -> Path:
    """softmax(x @ w), of 48 x 64 and 64 x 96."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
        helper.make_node("Softmax", ["m"], ["y"], "choice"),
    ]
    return save(path, nodes, {"x": (48, 64)}, {"w": (64, 96)}, (48, 96))


def images(path: Path) -> Path:
    """A convolution of 3x3, one of single channels, and a mean over places."""
    pads = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "full", **pads),
        helper.make_node("Relu", ["a"], ["b"], "positive"),
        helper.make_node("Conv", ["b", "v"], ["c"], "single", group=16, **pads),
        helper.make_node("GlobalAveragePool", ["c"], ["y"], "mean"),
    ]
    return save(path, nodes, {"x": (1, 8, 12, 14)}, {"w": (16, 8, 3, 3), "v": (16, 1, 3, 3)}, (1, 16, 1, 1))
