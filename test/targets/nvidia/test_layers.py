"""Typical layers of models: ptxas accepts their GPU code, and the results are the CPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.runtime.cuda.assembler import assemble, find_assembler

OPTIONS = stepwell.Options(cache=False, fallback="error")
SHAPES = {"image": (1, 12, 10, 8), "rows": (2, 6, 32)}


class _Graph:
    """A graph that grows by one layer at a time."""

    def __init__(self, kind: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)
        self.input = self.last = kind

    def add(self, operator: str, *weights: tuple[int, ...] | np.ndarray, **attributes: Any) -> str:
        names = [self._weight(weight) for weight in weights]
        self.nodes.append(helper.make_node(operator, [self.last, *names], [f"v{len(self.nodes)}"], **attributes))
        self.last = f"v{len(self.nodes) - 1}"
        return self.last

    def both(self, operator: str, other: str) -> None:
        self.nodes.append(helper.make_node(operator, [self.last, other], [f"v{len(self.nodes)}"]))
        self.last = f"v{len(self.nodes) - 1}"

    def model(self) -> onnx.ModelProto:
        x = helper.make_tensor_value_info(self.input, TensorProto.FLOAT, SHAPES[self.input])
        y = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "layers", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])

    def _weight(self, weight: tuple[int, ...] | np.ndarray) -> str:
        is_shape = isinstance(weight, tuple)
        array = self.random.uniform(-0.5, 0.5, weight).astype(np.float32) if is_shape else weight
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return f"w{len(self.weights) - 1}"


def _convolutions() -> onnx.ModelProto:
    graph = _Graph("image")
    first = graph.add("Conv", (24, 12, 3, 3), (24,), pads=[1, 1, 1, 1])
    graph.add("Relu")
    graph.add("Conv", (24, 1, 3, 3), (24,), pads=[1, 1, 1, 1], group=24)
    graph.add("HardSwish")
    graph.add("Conv", (24, 24, 1, 1), (24,))
    graph.both("Add", first)
    graph.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    graph.add("Conv", (16, 12, 3, 3), strides=[2, 2], group=2)
    graph.add("ConvTranspose", (16, 4, 2, 2), strides=[2, 2])
    graph.add("AveragePool", kernel_shape=[2, 2])
    return graph.model()


def _transformer() -> onnx.ModelProto:
    graph = _Graph("rows")
    first = graph.add("LayerNormalization", (32,), (32,))
    graph.add("MatMul", (32, 64))
    graph.add("Add", (64,))
    graph.add("Erf")
    graph.add("MatMul", (64, 32))
    graph.both("Add", first)
    graph.add("Transpose", perm=[0, 2, 1])
    graph.both("MatMul", first)
    graph.add("Softmax", axis=-1)
    graph.add("ReduceMean", axes=[1], keepdims=0)
    graph.add("Concat", (3, 32), axis=0)
    graph.add("Slice", np.array([1]), np.array([4]), np.array([0]))
    graph.add("Pow", np.array(2.5, np.float32))
    return graph.model()


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("make", [_convolutions, _transformer])
def test_layers(make: Any, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    model = make()
    x = np.random.default_rng(1).uniform(-1, 1, SHAPES[model.graph.input[0].name]).astype(np.float32)
    program = stepwell.compile(model, f"cuda:{architecture}", options=OPTIONS)
    np.testing.assert_allclose(program(x), stepwell.compile(model, options=OPTIONS)(x), rtol=1e-4, atol=1e-5)
    assembler = find_assembler()
    if assembler is None:
        pytest.skip("there is no ptxas to ask: install nvidia-cuda-nvcc")
    for code in program.programs[0].objects.values():
        assert assemble(assembler, code, architecture, ("-O1",))
