"""Small float models for the quantiser, with samples."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Samples = list[dict[str, np.ndarray]]


def model_of(nodes: list, weights: dict[str, np.ndarray], inputs: dict[str, list], output: list) -> onnx.ModelProto:
    """Returns a model with the output `y`."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)]
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", ports, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def images() -> tuple[onnx.ModelProto, Samples]:
    """Convolutions with batch norms, a residual sum, and a classifier."""
    random = np.random.default_rng(0)
    weights, nodes, data, channels = {}, [], "x", 3
    for index, count in enumerate((8, 8)):
        weights[f"w{index}"] = random.standard_normal((count, channels, 3, 3)) / np.sqrt(9 * channels)
        for name, values in {
            "scale": 1 + 0.3 * random.standard_normal(count),
            "shift": 0.1 * random.standard_normal(count),
            "mean": 0.1 * random.standard_normal(count),
            "variance": 0.5 + random.random(count),
        }.items():
            weights[f"{name}{index}"] = values
        nodes.append(helper.make_node("Conv", [data, f"w{index}"], [f"c{index}"], f"conv{index}", pads=[1, 1, 1, 1]))
        parameters = [f"{name}{index}" for name in ("scale", "shift", "mean", "variance")]
        nodes.append(helper.make_node("BatchNormalization", [f"c{index}", *parameters], [f"n{index}"]))
        if index:
            nodes.append(helper.make_node("Add", [f"n{index}", "r0"], ["sum"]))
        nodes.append(helper.make_node("Relu", ["sum" if index else f"n{index}"], [f"r{index}"]))
        data, channels = f"r{index}", count
    weights |= {"fw": random.standard_normal((10, 8)) / 3, "fb": random.standard_normal(10)}
    nodes += [
        helper.make_node("GlobalAveragePool", [data], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "fw", "fb"], ["y"], "classifier", transB=1),
    ]
    samples = [{"x": random.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    return model_of(nodes, weights, {"x": [1, 3, 8, 8]}, [1, 10]), samples


def products(outlier: float = 30.0) -> tuple[onnx.ModelProto, Samples]:
    """Three products of matrices; one channel of the input is much larger than the others."""
    random = np.random.default_rng(0)
    weights = {
        "w0": random.standard_normal((64, 96)) / 8,
        "w1": random.standard_normal((96, 64)) / 10,
        "b1": random.standard_normal(64),
        "w2": random.standard_normal((64, 16)) / 8,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "w1", "b1"], ["c"], "second"),
        helper.make_node("Tanh", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"], "third"),
    ]
    channel = np.where(np.arange(64) == 7, outlier, 1.0)
    samples = [{"x": (random.standard_normal((5, 64)) * channel).astype(np.float32)} for _ in range(6)]
    return model_of(nodes, weights, {"x": ["n", 64]}, ["n", 16]), samples
