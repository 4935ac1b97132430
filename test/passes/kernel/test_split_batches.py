"""Results of models whose first ops run image by image."""

from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

BATCH, SIZE = 3, 96


class _Model:
    """An ONNX model under construction: every method adds a node and returns the name of its result."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def conv(self, value: str, channels: int, columns: int, kernel: int, group: int = 1) -> str:
        shape = (columns, channels // group, kernel, kernel)
        weight = self.random.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))
        names = self.constant(weight), self.constant(self.random.standard_normal(columns, np.float32))
        return self.add("Conv", value, *names, pads=[kernel // 2] * 4, group=group)

    def finish(self, result: str) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [result], ["y"]))
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 3, SIZE, SIZE])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _inverted_residual() -> onnx.ModelProto:
    model = _Model()
    start = model.add("Relu", model.conv("x", 3, 16, 3))
    wide = model.add("Relu", model.conv(start, 16, 96, 1))
    deep = model.add("Relu", model.conv(wide, 96, 96, 3, group=96))
    mean = model.add("GlobalAveragePool", deep)
    gate = model.add("Sigmoid", model.conv(mean, 96, 96, 1))
    scaled = model.add("Mul", deep, gate)
    return model.finish(model.add("Add", start, model.conv(scaled, 96, 16, 1)))


def _shuffle() -> onnx.ModelProto:
    model = _Model()
    value = model.add("Relu", model.conv("x", 3, 32, 3))
    value = model.add("Reshape", value, model.constant(np.array([BATCH, 4, 8, SIZE, SIZE])))
    value = model.add("Transpose", value, perm=[0, 2, 1, 3, 4])
    value = model.add("Reshape", value, model.constant(np.array([BATCH, 32, SIZE, SIZE])))
    value = model.add("Concat", value, model.conv(value, 32, 32, 1), axis=1)
    value = model.conv(value, 64, 16, 1)
    return model.finish(model.add("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2]))


def _sum_over_images() -> onnx.ModelProto:
    model = _Model()
    value = model.conv(model.add("Relu", model.conv("x", 3, 64, 3)), 64, 16, 1)
    return model.finish(model.add("ReduceSum", value, model.constant(np.array([0])), keepdims=0))


@pytest.mark.few(2)
@pytest.mark.parametrize("make", [_inverted_residual, _shuffle, _sum_over_images])
def test_values(make):
    """Results equal ONNX Runtime's, for any number of threads."""
    runtime = pytest.importorskip("onnxruntime")
    model, phases = make(), {}
    options = stepwell.Options(cache=False, reached=lambda phase, module, _: phases.update({phase: str(module)}))
    executable = stepwell.compile(model, threads=1, options=options)
    assert "scf.for" in phases["kernels"]
    x = np.random.default_rng(1).standard_normal((BATCH, 3, SIZE, SIZE), np.float32)
    result = executable(x=x)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(result, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)
    shared = stepwell.compile(model, threads=2, options=stepwell.Options(cache=False))
    np.testing.assert_array_equal(shared(x=x), result)
