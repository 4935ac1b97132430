"""Products of bytes and of bfloat16 are exact for shapes that tiles of a matrix unit do not divide."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.runtime import processor


def _model(node: onnx.NodeProto, weight: np.ndarray, shape: list[int | str], rank: int) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node, helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT), helper.make_node("Relu", ["f"], ["y"])],
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _random(shape: tuple[int, ...], low: int, high: int, kind: type) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high, shape, endpoint=True).astype(kind)


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(32, 64, 32), (33, 128, 40), (7, 96, 24), (100, 200, 1000), (15, 64, 7), (64, 36, 130), (5, 64, 64)],
)
def test_products_of_any_shape_are_exact(rows: int, depth: int, columns: int) -> None:
    x, w = _random((rows, depth), 0, 255, np.uint8), _random((depth, columns), -128, 127, np.int8)
    model = _model(helper.make_node("MatMulInteger", ["x", "w"], ["s"]), w, [rows, depth], 2)
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    wanted = np.maximum(x.astype(np.int32) @ w.astype(np.int32), 0).astype(np.float32)
    np.testing.assert_array_equal(executable(x), wanted)


@pytest.mark.parametrize(
    ("channels", "size", "outputs", "kernel", "stride"),
    [(64, 14, 32, 3, 1), (64, 7, 64, 3, 1), (128, 9, 48, 1, 2), (32, 20, 40, 3, 2), (64, 17, 24, 5, 1)],
)
def test_convolutions_of_any_shape_are_exact(channels: int, size: int, outputs: int, kernel: int, stride: int) -> None:
    x = _random((1, channels, size, size), 0, 255, np.uint8)
    w = _random((outputs, channels, kernel, kernel), -128, 127, np.int8)
    node = helper.make_node("ConvInteger", ["x", "w"], ["s"], strides=[stride] * 2, pads=[kernel // 2] * 4)
    model = _model(node, w, [1, channels, size, size], 4)
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, [(0, 0), (0, 0), *[(kernel // 2,) * 2] * 2]).astype(np.int32), (kernel, kernel), (2, 3)
    )[:, :, ::stride, ::stride]
    wanted = np.maximum(np.einsum("nchwkl,ockl->nohw", windows, w.astype(np.int32)), 0).astype(np.float32)
    np.testing.assert_array_equal(executable(x), wanted)


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 64, 64), (3, 65, 40), (33, 130, 40), (100, 200, 1000), (15, 64, 7), (64, 36, 130)],
)
def test_products_of_bfloat16_are_exact(rows: int, depth: int, columns: int) -> None:
    """Sums of few ones and minus ones are exact in bfloat16, whatever their order."""
    x, w = _random((rows, depth), -1, 1, np.float32), _random((depth, columns), -1, 1, np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])],
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = stepwell.Options(cache=False, precision="bf16")
    executable = stepwell.compile(model, threads=1, options=options)
    np.testing.assert_array_equal(executable(x), np.maximum(x @ w, 0))


def test_products_of_any_number_of_rows_are_exact() -> None:
    w = _random((128, 96), -128, 127, np.int8)
    model = _model(helper.make_node("MatMulInteger", ["x", "w"], ["s"]), w, ["n", 128], 2)
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(dims={"n": (1, 100)}, cache=False))
    for rows in (1, 5, 16, 31, 64, 100):
        x = _random((rows, 128), 0, 255, np.uint8)
        wanted = np.maximum(x.astype(np.int32) @ w.astype(np.int32), 0).astype(np.float32)
        np.testing.assert_array_equal(executable(x), wanted)


def test_large_products_use_the_matrix_unit_where_there_is_one() -> None:
    w = _random((256, 64), -128, 127, np.int8)
    model = _model(helper.make_node("MatMulInteger", ["x", "w"], ["s"]), w, [64, 256], 2)
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    methods = [kernel["parameters"].get("bytes_method") for kernel in executable.report().kernels]
    assert ("amx" in methods) == ("amxint8" in (processor.features() or ()))
