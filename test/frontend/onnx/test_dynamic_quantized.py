"""ONNX Runtime's operators that quantise their inputs by the range of the data, compared with ONNX Runtime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession, SessionOptions

RNG = np.random.default_rng(11)


def check(op_type: str, x: np.ndarray, weights: list[np.ndarray | None], count: int = 1, **attributes: Any) -> None:
    """Compares a node, which must not run on the host, with ONNX Runtime; the weights are stored in the model."""
    names = ["" if array is None else f"w{index}" for index, array in enumerate(weights)]
    outputs = [f"y{index}" for index in range(count)]
    node = helper.make_node(op_type, ["x", *names], outputs, domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in zip(names, weights, strict=True) if array is not None],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))(x)
    exact = SessionOptions()  # without VNNI, ONNX Runtime saturates sums of uint8 by int8 without this entry
    exact.add_session_config_entry("session.x64quantprecision", "1")
    expected = InferenceSession(model.SerializeToString(), exact, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    for actual, wanted in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        # Numbers between two quantised values may be rounded either way.
        np.testing.assert_allclose(np.asarray(actual), np.asarray(wanted), rtol=1e-3, atol=5e-3)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def small(*shape: int) -> np.ndarray:
    return RNG.integers(-90, 90, shape).astype(np.int8)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lstm(direction):
    count = 2 if direction == "bidirectional" else 1
    scales, zeros = np.full(count, 0.01, np.float32), np.zeros(count, np.int8)
    weights = [small(count, 6, 16), small(count, 4, 16), floats(count, 32), None, None, None, None]
    check(
        "DynamicQuantizeLSTM",
        floats(5, 2, 6),
        [*weights, scales, zeros, scales * 2, zeros],
        3,
        direction=direction,
        hidden_size=4,
    )


def test_products():
    scale, columns = np.array(0.02, np.float32), np.full(3, 0.02, np.float32)
    check("DynamicQuantizeMatMul", floats(2, 5, 6), [small(6, 3), scale, None, floats(3)])
    check("DynamicQuantizeMatMul", floats(5, 6), [small(6, 3), columns, np.zeros(3, np.int8)])
    x, zero = RNG.integers(0, 255, (5, 6)).astype(np.uint8), np.array(120, np.uint8)
    check("MatMulIntegerToFloat", x, [small(6, 3), scale, columns, zero, np.zeros(3, np.int8), floats(3)])
