"""References of resize against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stepwell.dialects import dims
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.movement import DynamicResizeOp, ResizeOp
from stepwell.dialects.stepwell.movement.resizing import resolve_sizes
from stepwell.dialects.stepwell.resampling import COORDINATES, NEAREST, Sampling
from stepwell.dialects.types import TensorSpec

X = np.random.default_rng(0).standard_normal((1, 2, 6, 5), np.float32)
F32 = np.dtype(np.float32)


def to_onnx(mode: str, coordinates: str, nearest: str, **others: object) -> dict:
    names = {"cubic_coefficient": "cubic_coeff_a", "exclude_outside": "exclude_outside"}
    renamed = {names[name]: float(value) if "cubic" in name else int(bool(value)) for name, value in others.items()}
    return {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": nearest} | renamed


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("nearest", NEAREST)
@pytest.mark.parametrize("sizes", [(1, 2, 9, 10), (1, 2, 3, 4), (1, 2, 12, 1), (1, 2, 1, 15)])
def test_nearest(run_onnx, compute, coordinates, nearest, sizes):
    attributes = {"mode": "nearest", "coordinates": coordinates, "nearest": nearest}
    (expected,) = run_onnx("Resize", X, None, None, np.array(sizes), **to_onnx(**attributes))
    np.testing.assert_array_equal(compute(DynamicResizeOp, X, None, np.array(sizes), **attributes)[0], expected)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [(1, 2, 9, 10), (1, 2, 3, 4), (1, 2, 12, 1)])
def test_interpolation(run_onnx, compute, coordinates, mode, sizes):
    attributes = {"mode": mode, "coordinates": coordinates, "nearest": "floor"}
    (expected,) = run_onnx("Resize", X, None, None, np.array(sizes), **to_onnx(**attributes))
    (result,) = compute(DynamicResizeOp, X, None, np.array(sizes), **attributes)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exclude_outside", [False, True])
@pytest.mark.parametrize("cubic_coefficient", [-0.5, -0.75])
def test_cubic_options(run_onnx, compute, exclude_outside, cubic_coefficient):
    attributes = {"mode": "cubic", "coordinates": "half_pixel", "nearest": "floor"}
    attributes |= {"cubic_coefficient": cubic_coefficient, "exclude_outside": exclude_outside}
    sizes = np.array([1, 2, 10, 8])
    (expected,) = run_onnx("Resize", X, None, None, sizes, **to_onnx(**attributes))
    np.testing.assert_allclose(
        compute(DynamicResizeOp, X, None, sizes, **attributes)[0], expected, rtol=1e-4, atol=1e-5
    )


@given(scales=st.tuples(*[st.floats(0.5, 3, width=32)] * 2), mode=st.sampled_from(["nearest", "linear", "cubic"]))
@settings(max_examples=40, deadline=None)
def test_scales(run_onnx, compute, scales, mode):
    attributes = {"mode": mode, "coordinates": "asymmetric", "nearest": "floor"}
    operand = np.array([1, 1, *scales], np.float32)
    # ONNX Runtime copies the input if no extent changes, whatever the factors.
    assume(any(int(extent * factor) != extent for extent, factor in zip(X.shape[2:], operand[2:], strict=True)))
    (expected,) = run_onnx("Resize", X, None, operand, **to_onnx(**attributes))
    (result,) = compute(DynamicResizeOp, X, operand, None, **attributes)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def test_axes_select_the_resized_dimensions(compute):
    (result,) = compute(DynamicResizeOp, X, None, np.array([4, 3]), axes=(3, 2), mode="linear")
    sizes, scales = resolve_sizes(X.shape, None, np.array([4, 3]), (3, 2))
    assert sizes == (1, 2, 3, 4)
    np.testing.assert_array_equal(result, compute(ResizeOp, X, sizes=sizes, scales=scales, mode="linear")[0])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("exclude_outside", [False, True])
def test_weights_sum_to_one(mode, exclude_outside):
    sampling = Sampling(mode, "half_pixel", "floor", exclude_outside=exclude_outside)
    indices, weights = sampling.taps(5, 13, 13 / 5)
    assert indices.min() >= 0
    assert indices.max() < 5
    np.testing.assert_allclose(weights.sum(0), 1, rtol=1e-6)


def test_whole_factors_of_symbols_stay_precise():
    height = dims.symbol("h")
    scales = TensorSpec((4,), F32, np.array([1, 1, 2, 1.5], np.float32))
    defaults = {field.name: field.default for field in DynamicResizeOp.attribute_fields()}
    spec = DynamicResizeOp.infer(TensorSpec((1, 8, height, 10), F32), scales, None, **defaults)
    assert spec.shape == (1, 8, height * 2, 15)


def test_wrong_attributes_are_refused():
    x = TensorSpec((1, 2, 4, 4), F32)
    scales = np.ones(4, np.float32)
    with pytest.raises(OpError, match="attribute 'sizes' must have 4 entries, but has 2"):
        ResizeOp.infer(x, sizes=(8, 8), scales=scales, mode="nearest")
    with pytest.raises(OpError, match="sizes must not be negative, and scales must be positive"):
        ResizeOp.infer(x, sizes=(1, 2, -1, 8), scales=scales, mode="nearest")
    with pytest.raises(OpError, match="sizes must not be negative, and scales must be positive"):
        ResizeOp.infer(x, sizes=(1, 2, 4, 8), scales=scales * 0, mode="nearest")
    with pytest.raises(OpError, match="mode linear takes floating point"):
        ResizeOp.infer(x.with_dtype(np.uint8), sizes=(1, 2, 8, 8), scales=scales, mode="linear")
    with pytest.raises(OpError, match="takes exactly one of the operands 'scales' and 'sizes'"):
        DynamicResizeOp.infer(x, None, None, axes=(), mode="nearest")
