"""Depthwise convolutions and pooling on the GPU simulator, in both layouts: the CPU's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

OPTIONS = stepwell.Options(cache=False, fallback="error")
RNG = np.random.default_rng(0)
DEPTHWISE = {
    "3x3": ((2, 6, 9, 10), (3, 3), {"pads": [1, 1, 1, 1]}),
    "5x5 of every second": ((1, 16, 11, 12), (5, 5), {"pads": [2, 2, 2, 2], "strides": [2, 2]}),
    "dilated, padded on one side": ((1, 4, 9, 14), (1, 7), {"pads": [0, 12, 0, 0], "dilations": [1, 2]}),
    "of sequences": ((2, 5, 33), (4,), {"pads": [3, 0]}),
    "of volumes": ((1, 4, 4, 5, 7), (3, 1, 3), {"pads": [1, 0, 1, 1, 0, 1], "strides": [1, 2, 1]}),
}
POOLING: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "max": ("MaxPool", (1, 8, 9, 11), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "max, rounded up": ("MaxPool", (1, 3, 10, 10), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "max, dilated": ("MaxPool", (2, 4, 12), {"kernel_shape": [3], "dilations": [2]}),
    "average without padding": ("AveragePool", (1, 5, 8, 9), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    "average of all": (
        "AveragePool",
        (1, 5, 8, 9),
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "root of squares": ("LpPool", (1, 4, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2], "p": 2}),
}


def _model(nodes: list[onnx.NodeProto], shape: tuple[int, ...], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A model from `x` to `y`."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def _check(model: onnx.ModelProto, architecture: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Compares a model with the CPU's results; returns the schedules of its kernels by class."""
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = RNG.standard_normal(shape, np.float32)
    on_gpu = stepwell.compile(model, f"cuda:{architecture}", options=OPTIONS)
    np.testing.assert_allclose(on_gpu(x), stepwell.compile(model, options=OPTIONS)(x), rtol=1e-4, atol=1e-5)
    (program,) = on_gpu.programs
    return {kernel.kind: program.compile_facts.details_of(kernel.name).schedule_name for kernel in program.kernels}


@pytest.mark.few(4)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_between_input_and_result(name, architecture, monkeypatch):
    shape, window, attributes = DEPTHWISE[name]
    channels = shape[1]
    weights = {"w": RNG.standard_normal((channels, 1, *window), np.float32)}
    weights["b"] = RNG.standard_normal(channels, np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], group=channels, **attributes),
        helper.make_node("HardSwish", ["c"], ["y"]),
    ]
    schedules = _check(_model(nodes, shape, weights), architecture, monkeypatch)
    assert "contraction" not in schedules


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_between_products(multiplier, monkeypatch):
    weights = {
        "w": RNG.standard_normal((12, 8, 1, 1), np.float32),
        "d": RNG.standard_normal((12 * multiplier, 1, 3, 3), np.float32),
        "v": RNG.standard_normal((8, 12 * multiplier, 1, 1), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"]),
        helper.make_node("Conv", ["h", "d"], ["e"], group=12, pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["e"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["y"]),
    ]
    schedules = _check(_model(nodes, (1, 8, 12, 12), weights), "sm_80", monkeypatch)
    # The graph chooses the layout; channels-first kernels are of the class of pooling.
    assert schedules["contraction"] == "contraction" and schedules.keys() & {"depthwise", "pooling"}


@pytest.mark.few(5)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", POOLING)
def test_pooling(name, architecture, monkeypatch):
    operator, shape, attributes = POOLING[name]
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    assert "pooling" in _check(_model([node], shape, {}), architecture, monkeypatch)


def test_a_convolution_of_single_pixels_between_input_and_result(monkeypatch):
    weights = {"w": RNG.standard_normal((16, 24, 1, 1), np.float32), "b": RNG.standard_normal(16, np.float32)}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"])
    # A product that reads the planes in place: nothing is transposed.
    assert _check(_model([node], (2, 24, 12, 20), weights), "sm_80", monkeypatch) == {"contraction": "contraction"}
