"""Models in channels-first layout give the results of the ops' references."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.contraction import ConvOp
from stepwell.dialects.stepwell.planar import PlanarConvOp
from stepwell.driver.options import Options

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("spatial", "window"),
    [
        ((40,), {"kernel": (5,), "strides": (1,), "pads": (2, 2), "dilations": (1,)}),
        ((9, 21), {"kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}),
        ((12, 50), {"kernel": (5, 5), "strides": (2, 2), "pads": (2, 2, 2, 2), "dilations": (1, 1)}),
        ((9, 70), {"kernel": (1, 7), "strides": (1, 1), "pads": (0, 6, 0, 0), "dilations": (1, 2)}),
        ((4, 5, 18), {"kernel": (3, 1, 3), "strides": (1, 2, 1), "pads": (1, 0, 1, 1, 0, 1), "dilations": (1, 1, 1)}),
    ],
)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_planar_conv(check_op, spatial, window, kind):
    x = RNG.standard_normal((2, 3, *spatial)).astype(kind)
    weight = RNG.standard_normal((3, *window["kernel"])).astype(kind)
    check_op(PlanarConvOp, x, weight, tolerance=1e-6 if kind == np.float32 else 1e-3, **window)


@pytest.mark.parametrize(
    ("shape", "weight_shape", "strides", "group"),
    [
        ((1, 64, 40, 40), (48, 64, 1, 1), (1, 1), 1),
        ((2, 64, 41, 37), (48, 16, 1, 1), (2, 3), 4),
        ((1, 32, 4000), (40, 32, 1), (1,), 1),
        ((1, 48, 33, 40), (48, 1, 3, 3), (1, 1), 48),
    ],
)
def test_conv_between_input_and_result(shape, weight_shape, strides, group):
    x = RNG.standard_normal(shape, np.float32)
    weight, bias = RNG.standard_normal(weight_shape, np.float32), RNG.standard_normal(weight_shape[0], np.float32)
    pads = [size // 2 for size in weight_shape[2:]] * 2
    conv = helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=strides, group=group, pads=pads)
    graph = helper.make_graph(
        [conv, helper.make_node("Relu", ["c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    run = stepwell.compile(model, options=Options(cache=False))
    window = {"strides": strides, "pads": tuple(pads), "dilations": (1,) * len(strides)}
    want = ConvOp.reference(x, weight, bias, group=group, layout="channels_first", **window)
    np.testing.assert_allclose(run(x), np.maximum(want, 0), rtol=1e-4, atol=1e-4)
    # Nothing is transposed; the only movement takes every second pixel.
    kinds = [kernel.kind for program in run.programs for kernel in program.kernels]
    assert kinds.count("movement") == (max(strides) > 1)
