"""Errors of narrow types relative to float32 are measured, and overflow is reported separately."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.explain.precision import precision_errors
from stepwell.tools import run


def _model(scale: float) -> onnx.ModelProto:
    """Two products, with intermediate numbers about as large as `scale`."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(scale * random.random((16, 16), np.float32), "u"),
        numpy_helper.from_array(random.random((16, 8), np.float32), "v"),
    ]
    nodes = [helper.make_node("MatMul", ["x", "u"], ["h"]), helper.make_node("MatMul", ["h", "v"], ["y"])]
    graph = helper.make_graph(
        [*nodes, helper.make_node("ArgMax", ["y"], ["best"], axis=-1)],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8]),
            helper.make_tensor_value_info("best", TensorProto.INT64, [4, 1]),
        ],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(("precision", "bits"), [("tf32", 11), ("f16", 11), ("bf16", 8)])
def test_errors_are_as_large_as_the_bits_say(precision: str, bits: int) -> None:
    x = np.random.default_rng(1).random((4, 16), np.float32)
    (error,) = precision_errors(_model(1), {"x": x}, precision)
    assert error.name == "y"
    assert 2.0 ** -(bits + 4) < error.relative < 2.0 ** -(bits - 2)
    assert 0 < error.rms <= error.relative * 4
    assert error.lost == 0


def test_overflows_are_counted() -> None:
    x = np.full((4, 16), 100, np.float32)
    (error,) = precision_errors(_model(1000), {"x": x}, "f16")
    assert error.lost == 32
    assert error.largest == 0
    (error,) = precision_errors(_model(1000), {"x": x}, "bf16")
    assert error.lost == 0


def test_nothing_differs_in_float32() -> None:
    (error,) = precision_errors(_model(1), {"x": np.ones((4, 16), np.float32)}, "f32")
    assert (error.largest, error.lost) == (0, 0)


def test_the_tool_reports_errors(tmp_path, capsys) -> None:
    onnx.save(_model(1), tmp_path / "two.onnx")
    arguments = [str(tmp_path / "two.onnx"), "--precision=tf32"]
    assert run.main(arguments) == 0
    assert "products in tf32, compared with float32:" in capsys.readouterr().out
    assert run.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["precision"]) == (1, "tf32")
    assert set(found["outputs"][0]) >= {"name", "largest", "relative", "rms", "lost"}
