"""Operators on the host that ONNX's reference implementation gets wrong, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from stepwell.runtime.host.step import HostNode


@pytest.mark.parametrize("outputs", [["y"], ["y", "", "v"], ["y", "i", "v", "c"]])
@pytest.mark.parametrize("attributes", [{"sorted": 0}, {"sorted": 1}, {"axis": 1, "sorted": 0}, {"axis": -2}])
def test_unique_is_that_of_onnxruntime(outputs: list[str], attributes: dict[str, int]) -> None:
    graph = helper.make_graph(
        [helper.make_node("Unique", ["x"], outputs, **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["n", "m"])],
        [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in outputs if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).integers(0, 3, (3, 20))
    for found, wanted in zip(HostNode(model, "node").run({"x": x}), session.run(None, {"x": x}), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)
