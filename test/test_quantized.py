"""Products of 8-bit integers, compiled by every method that machines have, compared with ONNX's own reference."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from stepwell.lowering.target import Target

F32, I32, I8, U8 = np.float32, np.int32, np.int8, np.uint8
TARGETS = ["cpu", *(name for name in ("x86-64-v3", "x86-64-v4") if Target.parse(name).runs_on(Target.host()))]


def draw(dtype, *shape):
    info = np.iinfo(dtype)
    return np.random.default_rng(0).integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def compare(op_type, x, constants, target="cpu", **attributes):
    """Compares a node whose other inputs are constants; rounded results may be off by one."""
    names = [f"c{index}" for index in range(len(constants))]
    node = helper.make_node(op_type, ["x", *names], ["y"], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    result = helper.np_dtype_to_tensor_dtype(np.dtype(I32 if "Integer" in op_type else x.dtype))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names, constants, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    got = stepwell.compile(model, target, threads=1, options=stepwell.Options(cache=False))(x)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    off = np.abs(got.astype(np.int64) - expected.astype(np.int64))
    assert off.max() <= ("QLinear" in op_type)
    assert (off > 0).mean() < 0.02


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 64, 33), (7, 9, 5), (20, 30, 70)])
def test_products_of_all_extents(target, rows, depth, columns):
    compare("MatMulInteger", draw(U8, rows, depth), [draw(I8, depth, columns), U8(3), I8(0)], target)


@pytest.mark.parametrize(("left", "right"), [(U8, U8), (I8, I8), (I8, U8)])
def test_products_of_all_signs(left, right):
    zeros = [left(5), draw(right, 21)]
    compare("MatMulInteger", draw(left, 2, 6, 17), [draw(right, 17, 21), *zeros])


def test_sums_of_the_greatest_products_do_not_saturate():
    x, weight = np.full((3, 256), 255, U8), np.full((256, 40), -128, I8)
    for target in TARGETS:
        compare("MatMulInteger", x, [weight], target)


CONVOLUTIONS = [
    ({"pads": [1, 1, 1, 1]}, 8, 40),
    ({"pads": [3, 3, 3, 3], "strides": [2, 2]}, 3, 24),
    ({"group": 16, "pads": [1, 1, 1, 1]}, 16, 16),
    ({"group": 4, "pads": [0, 1, 1, 0]}, 24, 24),
    ({"group": 8}, 16, 16),
]


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize(("attributes", "channels", "outputs"), CONVOLUTIONS)
def test_convolutions(target, attributes, channels, outputs):
    weight = draw(I8, outputs, channels // attributes.get("group", 1), 3, 3)
    compare("ConvInteger", draw(U8, 1, channels, 9, 8), [weight, U8(121)], target, **attributes)


def test_quantised_convolution_of_channels():
    weight, scales = draw(I8, 72, 8, 3, 3), np.linspace(0.01, 0.02, 72, dtype=F32)
    bias = np.arange(72, dtype=I32) * 100
    constants = [F32(0.02), U8(120), weight, scales, np.zeros(72, I8), F32(0.9), U8(100), bias]
    compare("QLinearConv", draw(U8, 1, 8, 6, 7), constants, pads=[1, 1, 1, 1])


def test_quantised_product_of_two_inputs():
    constants = [F32(0.02), U8(120), draw(U8, 2, 9, 11), F32(0.01), U8(7), F32(0.5), U8(100)]
    compare("QLinearMatMul", draw(U8, 2, 5, 9), constants)
