"""Models that NNCF has quantised: all products run on bytes, and the results are those of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

from .nncf_model import nncf_model


def test_all_products_multiply_bytes() -> None:
    run = stepwell.compile(nncf_model(), options=stepwell.Options(cache=False))
    x = np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)
    got = run(x)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        nncf_model().SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    (want,) = session.run(None, {"x": x})
    # A value that lies between two numbers may be rounded to either.
    np.testing.assert_allclose(got, want, atol=0.01 * np.abs(want).max())
    assert "could multiply bytes" not in run.report().text()


@pytest.mark.parametrize("scale", [0.12, 0.13])
def test_branches_with_different_scales_are_named(scale: float) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["a"]),
        helper.make_node("DequantizeLinear", ["x", "t"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("DequantizeLinear", ["w", "s"], ["v"]),
        helper.make_node("MatMul", ["c", "v"], ["y"], "product"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT8, [4, 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 48])
    weight = np.random.default_rng(0).integers(-127, 127, (64, 48)).astype(np.int8)
    constants = {"s": np.float32(0.12), "t": np.float32(scale), "w": weight}
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], stored), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    run = stepwell.compile(model, options=stepwell.Options(cache=False))
    data = np.random.default_rng(1).integers(-127, 127, (4, 32)).astype(np.int8)
    joined = np.concatenate([data * np.float32(0.12), data * np.float32(scale)], axis=1)
    np.testing.assert_allclose(run(data), joined @ (weight * np.float32(0.12)), rtol=1e-4, atol=1e-2)
    reason = "computed by stepwell.concat after the dequantisation"
    assert (reason in run.report().text()) == (scale != 0.12)
