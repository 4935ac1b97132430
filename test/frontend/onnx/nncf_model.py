"""A quantised model in the form that NNCF writes: float weights, quantised and dequantised in the graph."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class NncfModel:
    """Writes nodes as `nncf.quantize` does (NNCF 3.4): names, signs and axes of its quantisers."""

    def __init__(self) -> None:
        """Makes an empty model."""
        self._random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: np.ndarray | np.generic) -> str:
        """Adds an initializer."""
        self._constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, inputs: list[str], result: str, **attributes: object) -> str:
        """Adds a node of the float model."""
        self._nodes.append(helper.make_node(kind, inputs, [result], f"node.{result}", **attributes))
        return result

    def quantized(self, name: str, scale: np.ndarray | float, is_signed: bool = True, **attributes: int) -> str:
        """Adds the pair of nodes after a value; zero points are 0."""
        scales = np.asarray(scale, np.float32)
        zero = np.zeros(scales.shape, np.int8 if is_signed else np.uint8)
        given = [self.constant(f"scale_{name}_1", scales), self.constant(f"zero_point_{name}_1", zero)]
        self._nodes.append(
            helper.make_node(
                "QuantizeLinear", [name, *given], [f"q_output_{name}_1"], f"QuantizeLinear_{name}_1", **attributes
            )
        )
        self._nodes.append(
            helper.make_node(
                "DequantizeLinear",
                [f"q_output_{name}_1", *given],
                [f"dq_output_{name}_1"],
                f"DequantizeLinear_{name}_1",
                **attributes,
            )
        )
        return f"dq_output_{name}_1"

    def weight(self, name: str, shape: tuple[int, ...], axis: int) -> str:
        """Adds float weights with a scale for each output channel."""
        array = self._random.standard_normal(shape).astype(np.float32)
        self.constant(name, array)
        most = np.abs(np.moveaxis(array, axis, 0).reshape(shape[axis], -1)).max(axis=1)
        return self.quantized(name, most / 127, axis=axis)

    def made(self) -> onnx.ModelProto:
        """Returns the model from `x` [n, 3, 16, 16] to `y` [n, 10]."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])
        graph = helper.make_graph(self._nodes, "net", [x], [y], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def nncf_model() -> onnx.ModelProto:
    """Branches with one scale that are joined, a slice and a reshape between dequantisation and product, a Gemm."""
    net = NncfModel()
    x = net.quantized("x", 0.03)
    net.node("Conv", [x, net.weight("w0", (8, 3, 3, 3), 0)], "c0", pads=[1, 1, 1, 1])
    net.node("Relu", ["c0"], "r0")
    first = net.quantized("r0", 0.12, is_signed=False)
    net.node("Conv", [first, net.weight("w1", (8, 1, 3, 3), 0)], "c1", pads=[1, 1, 1, 1], group=8)
    net.node("Relu", ["c1"], "r1")
    net.node("Concat", [first, net.quantized("r1", 0.12, is_signed=False)], "joined", axis=1)
    net.node("Conv", ["joined", net.weight("w2", (6, 16, 1, 1), 0)], "c2")
    net.node("Relu", ["c2"], "r2")
    part = net.quantized("r2", 0.5, is_signed=False)
    starts, ends = net.constant("starts", np.array([4])), net.constant("ends", np.array([12]))
    net.node("Slice", [part, starts, ends, net.constant("axes", np.array([2]))], "rows")
    net.node("Reshape", ["rows", net.constant("shape", np.array([0, -1]))], "flat")
    net.node("MatMul", ["flat", net.weight("w3", (768, 20), 1)], "h")
    hidden = net.quantized("h", 4.0)
    net.node(
        "Gemm", [hidden, net.weight("w4", (10, 20), 0), net.constant("bias", np.ones(10, np.float32))], "y", transB=1
    )
    return net.made()
