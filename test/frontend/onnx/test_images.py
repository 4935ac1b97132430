"""Operators on images and indices that become several ops, compared with ONNX Runtime or ONNX's reference."""

import numpy as np
import pytest
from mlir import ir
from onnx import helper
from onnx.reference import ReferenceEvaluator
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.onnx.importer import import_model

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check_reference(build, op_type, opset, inputs, constants, outputs=1, rtol=1e-4, **attributes):
    """Compares a node with ONNX's reference, if ONNX Runtime differs from it or lacks the operator."""
    names = [f"x{index}" for index in range(max([len(inputs), *(index + 1 for index in constants)]))]
    feeds = {f"x{index}": array for index, array in enumerate(inputs) if array is not None}
    stored = {f"x{index}": np.asarray(array) for index, array in constants.items()}
    results = [f"y{index}" for index in range(outputs)]
    given = [name if name in feeds or name in stored else "" for name in names]
    node = helper.make_node(op_type, given, results, **attributes)
    model = build([node], feeds, results, stored, opset)
    expected = ReferenceEvaluator(model).run(None, feeds)
    for output, array in zip(model.graph.output, expected, strict=True):
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    imported = import_model(model, ir.Context(), {name: array.shape for name, array in feeds.items()})
    actual = evaluate(imported.module, "main", list(feeds.values()), imported.parameters)
    for got, wanted in zip(actual, expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("exclude_outside", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [(1, 2, 5, 3), (1, 2, 13, 4)])
def test_antialias(build, mode, sizes, exclude_outside):
    window = {"mode": mode, "antialias": 1, "exclude_outside": exclude_outside}
    check_reference(build, "Resize", 19, [floats(1, 2, 11, 8)], {3: np.array(sizes)}, **window)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_of_a_part(build, mode):
    region = np.array([0, 0, 0.1, -0.2, 1, 1, 0.8, 1.3], np.float32)
    window = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    constants = {1: region, 3: np.array([1, 1, 4, 7])}
    check_reference(build, "Resize", 19, [floats(1, 1, 6, 5)], constants, **window)


def test_resize_of_integers(build):
    x = RNG.integers(0, 256, (1, 1, 4, 5)).astype(np.uint8)
    check_reference(build, "Resize", 19, [x], {3: np.array([1, 1, 7, 9])}, mode="cubic", rtol=0)


@pytest.mark.parametrize(
    "window",
    [
        {},
        {"pads": [1, 0, 0, 1]},
        {"strides": [2, 1], "dilations": [1, 2], "pads": [0, 1, 2, 0]},
    ],
)
def test_col2im(check, window):
    image, block = (5, 6), (2, 3)
    count = [
        (size + sum(window.get("pads", [0] * 4)[axis::2]) - (kernel - 1) * window.get("dilations", [1, 1])[axis] - 1)
        // window.get("strides", [1, 1])[axis]
        + 1
        for axis, (size, kernel) in enumerate(zip(image, block, strict=True))
    ]
    check("Col2Im", 18, [floats(2, 3 * 6, int(np.prod(count)))], constants={1: image, 2: block}, **window)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 2, 3, 2, 4)])
def test_affine_grid(check, size, align_corners):
    rank = len(size) - 2
    check("AffineGrid", 20, [floats(size[0], rank, rank + 1)], constants={1: size}, align_corners=align_corners)


def test_transposed_convolution_to_a_shape(check):
    weight = {1: floats(2, 3, 3, 3)}
    for shape in ([10, 8], [9, 7], [7, 6]):
        check("ConvTranspose", 11, [floats(1, 2, 3, 3)], constants=weight, strides=[3, 2], output_shape=shape)


def test_deformed_convolution(build):
    offset, mask = floats(1, 2 * 2 * 4, 3, 4), floats(1, 2 * 4, 3, 4)
    inputs = [floats(1, 4, 4, 5), floats(6, 2, 2, 2), offset, floats(6), mask]
    check_reference(build, "DeformConv", 19, inputs, {}, group=2, offset_group=2, kernel_shape=[2, 2])


def test_pad_with_a_computed_value(check):
    check(
        "Pad", 18, [floats(2, 3), None, np.array(7, np.float32)], constants={1: np.array([1, 0, -1, 2])}, dynamic=False
    )
    check("Pad", 19, [floats(2, 3)], constants={1: np.array([5, 1, 1, 7])}, mode="wrap")


def test_norms_of_windows(check):
    for p in (1, 2, 3):
        check(
            "LpPool", 18, [floats(1, 2, 6, 7)], kernel_shape=[2, 3], pads=[1, 0, 0, 1], strides=[1, 2], p=p, rtol=1e-4
        )
        check("GlobalLpPool", 2, [floats(1, 2, 3, 4)], p=p, rtol=1e-4)


def test_pooling_and_back(check, build):
    x = floats(2, 3, 6, 8)
    check("MaxPool", 12, [x], outputs=2, kernel_shape=[2, 3], strides=[2, 2])
    check("MaxPool", 12, [x], outputs=2, kernel_shape=[2, 3], strides=[2, 2], storage_order=1)
    indices = np.sort(RNG.permutation(2 * 16)[:8]).reshape(1, 2, 2, 2)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check("MaxUnpool", 11, [floats(1, 2, 2, 2), indices], **window)
    check_reference(build, "MaxUnpool", 11, [floats(1, 2, 2, 2), indices], {2: np.array([1, 2, 5, 6])}, **window)


@pytest.mark.parametrize("batches", [0, 1])
def test_gather_nd(check, batches):
    indices = np.stack([RNG.integers(-2, 2, (2, 4)), RNG.integers(-3, 3, (2, 4))], -1)
    x = floats(2, 3, 5) if batches == 0 else floats(2, 2, 3, 5)
    check("GatherND", 12, [x, indices], batch_dims=batches)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_by_index(check, axis):
    x = floats(3, 4, 5)
    indices = RNG.integers(-3, 3, (2, 4, 3) if axis == 0 else (3, 2, 5) if axis == 1 else (3, 4, 7))
    check("GatherElements", 13, [x, indices], axis=axis)
    for reduction in ("none", "add", "max"):
        kept = {} if reduction == "none" else {"reduction": reduction}
        places = np.stack([np.arange(3)] * 4, 0)[None].repeat(3, 0) if axis == -1 else indices[:1, :1]
        check("ScatterElements", 18, [x, places, floats(*places.shape)], axis=axis, **kept)


def test_sorted_along_any_axis(check):
    for axis in (0, 1, 2):
        check("TopK", 11, [floats(4, 3, 5)], constants={1: np.array([2])}, outputs=2, axis=axis, largest=axis % 2)


def test_sequences_backwards(check):
    lengths = np.array([1, 4, 0])
    check("ReverseSequence", 10, [floats(4, 3, 2), lengths], time_axis=0, batch_axis=1)
    check("ReverseSequence", 10, [floats(3, 4), lengths], time_axis=1, batch_axis=0)


def test_rows_of_a_cache(build):
    past, update = floats(2, 3, 5, 4), floats(2, 3, 2, 4)
    for mode, starts in (("linear", [0, 3]), ("circular", [4, 1])):
        check_reference(build, "TensorScatter", 24, [past, update, np.array(starts)], {}, mode=mode)
