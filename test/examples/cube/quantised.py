"""Compiles quantised ops for the cube unit and compares them with ONNX Runtime; prints the classes of its kernels."""

import numpy as np
import onnx
import onnxruntime
import stepwell
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(0)
constants = {
    "w": random.integers(-127, 127, (32, 16, 3, 3)).astype(np.int8),
    "b": random.integers(-999, 999, 32).astype(np.int32),
    "m": random.integers(-127, 127, (64, 48)).astype(np.int8),
    "x_scale": np.float32(0.02),
    "x_zero": np.uint8(128),
    "w_scale": np.full(32, 0.01, np.float32),
    "w_zero": np.zeros(32, np.int8),
    "y_scale": np.float32(0.05),
    "y_zero": np.uint8(120),
    "m_zero": np.int8(0),
}
quantised = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"]
nodes = [
    helper.make_node("QLinearConv", quantised, ["y"], "convolution", pads=[1, 1, 1, 1]),
    helper.make_node("MatMulInteger", ["a", "m", "x_zero", "m_zero"], ["z"], "product"),
]
info = helper.make_tensor_value_info
inputs = [info("x", TensorProto.UINT8, [1, 16, 20, 20]), info("a", TensorProto.UINT8, [64, 64])]
outputs = [info("y", TensorProto.UINT8, [1, 32, 20, 20]), info("z", TensorProto.INT32, [64, 48])]
weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
graph = helper.make_graph(nodes, "quantised", inputs, outputs, weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(model, "quantised.onnx")

x = random.integers(0, 255, (1, 16, 20, 20)).astype(np.uint8)
a = random.integers(0, 255, (64, 64)).astype(np.uint8)
executable = stepwell.compile("quantised.onnx", target="cube:v1")
# On x86 CPUs without VNNI, ONNX Runtime saturates sums of ui8 by i8 at 16 bits unless it converts the weights to ui8.
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.x64quantprecision", "1")
expected = onnxruntime.InferenceSession("quantised.onnx", options).run(None, {"x": x, "a": a})
for found, wanted in zip(executable(x=x, a=a), expected, strict=True):
    np.testing.assert_array_equal(found, wanted)
print(sorted(item["class"] for item in executable.report().kernels if item["device"].get("unit") == "cube"))
