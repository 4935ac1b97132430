"""Pooling compiled to native code, against the reference semantics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.dialects.stepwell.pooling import AveragePoolOp, MaxPoolOp
from stepwell.driver.options import Options

OPS = {"MaxPool": MaxPoolOp, "AveragePool": AveragePoolOp}


# Rows long enough for vectors along them; padding on one side and on both; more channels than lanes.
@pytest.mark.parametrize("op_type", OPS)
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "pads"),
    [
        ((1, 1, 50, 90), (3, 40), (2, 2), (1, 20, 1, 19)),
        ((1, 1, 50, 90), (3, 40), (2, 2), (0, 0, 0, 19)),
        ((2, 1, 200), (64,), (7,), (5, 3)),
        ((1, 20, 17, 19), (3, 3), (2, 2), (1, 1, 1, 1)),
        ((1, 3, 9, 8, 7), (2, 3, 2), (1, 2, 1), (0, 1, 1, 1, 1, 0)),
    ],
)
def test_pool(op_type: str, shape: tuple, kernel: tuple, strides: tuple, pads: tuple) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32) - 3
    attributes = {"kernel": kernel, "strides": strides, "pads": pads, "dilations": (1,) * len(kernel)}
    extra = {"count_include_pad": False} if op_type == "AveragePool" else {}
    expected = OPS[op_type].reference(x, **attributes, **extra, ceil_mode=False, layout="channels_first")
    node = helper.make_node(op_type, ["x"], ["y"], kernel_shape=kernel, strides=strides, pads=pads)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, expected.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    result = stepwell.compile(model, threads=1, options=Options(cache=False))(x)
    assert math.prod(expected.shape) > 1
    np.testing.assert_allclose(result, expected, rtol=1e-5)
