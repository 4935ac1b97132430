"""Compiles a model once for a range of sizes on the cube unit, and calls it with several sizes from several threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import stepwell
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(0)
weight = random.standard_normal((64, 48)).astype(np.float32)
nodes = [
    helper.make_node("MatMul", ["x", "w"], ["scores"], "dense"),
    helper.make_node("Transpose", ["scores"], ["columns"], "turn"),
    helper.make_node("MatMul", ["columns", "x"], ["y"], "contracts_the_rows"),
]
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 64])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [48, 64])
graph = helper.make_graph(nodes, "ranges", [x], [y], [numpy_helper.from_array(weight, "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "ranges.onnx")

executable = stepwell.compile("ranges.onnx", target="cube:v1", options=stepwell.Options(dims={"rows": (1, 128)}))


def call(rows: int) -> None:
    """Compares one call with numpy."""
    given = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
    expected = (given @ weight).T @ given
    np.testing.assert_allclose(executable(given), expected, atol=4e-3 * np.abs(expected).max())


with ThreadPoolExecutor(4) as pool:
    list(pool.map(call, [128, 1, 17, 64, 100, 3, 128, 33, 90, 2] * 4))
assert any(item["device"].get("unit") == "cube" for item in executable.report().kernels)
