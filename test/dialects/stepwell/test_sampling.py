"""References of sampling and of pooling of regions against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.movement import SampleOp
from stepwell.dialects.stepwell.regions import RoiAlignOp, RoiMaxPoolOp
from stepwell.dialects.types import TensorSpec

F32 = np.dtype(np.float32)
FEW = settings(max_examples=30, deadline=None)


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@given(
    seed=st.integers(0, 99),
    mode=st.sampled_from(["nearest", "linear", "cubic"]),
    padding=st.sampled_from(["zeros", "border", "reflection"]),
    about_edges=st.booleans(),
)
@FEW
def test_sample(run_onnx, compute, seed, mode, padding, about_edges):
    x, positions = random(seed, 2, 3, 5, 4), random(seed + 1, 2, 2, 3, 6) * 4 + 2
    extents = np.array([5, 4], np.float32).reshape(1, 2, 1, 1)
    grid = positions * 2 / (extents - 1) - 1 if about_edges else (positions * 2 + 1) / extents - 1
    grid = np.moveaxis(grid[:, ::-1], 1, -1)
    window = {"mode": mode, "padding_mode": padding, "align_corners": int(about_edges)}
    (expected,) = run_onnx("GridSample", x, grid, **window)
    (result,) = compute(SampleOp, x, positions, mode=mode, padding=padding, about_edges=about_edges)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)


@given(seed=st.integers(0, 99), samples=st.integers(0, 3), shift=st.sampled_from([0.0, 0.5]))
@FEW
def test_roi_align(run_onnx, compute, seed, samples, shift):
    x, boxes, images = random(seed, 2, 3, 9, 7), np.abs(random(seed + 1, 4, 4)) * 4, np.array([0, 1, 1, 0])
    boxes[:, 2:] += boxes[:, :2]
    expected = run_onnx(
        "RoiAlign",
        x,
        boxes,
        images,
        output_height=3,
        output_width=2,
        sampling_ratio=samples,
        spatial_scale=0.75,
        coordinate_transformation_mode="half_pixel" if shift else "output_half_pixel",
    )
    window = {"sizes": (3, 2), "samples": samples, "scale": 0.75, "shift": shift}
    np.testing.assert_allclose(compute(RoiAlignOp, x, boxes, images, **window)[0], expected[0], rtol=1e-5, atol=1e-5)


@given(seed=st.integers(0, 99))
@FEW
def test_roi_max_pool(run_onnx, compute, seed):
    x, boxes = random(seed, 2, 3, 9, 7), np.rint(np.abs(random(seed + 1, 4, 5)) * 8)
    boxes[:, 0] %= 2
    (expected,) = run_onnx("MaxRoiPool", x, boxes, pooled_shape=[3, 2], spatial_scale=0.5)
    np.testing.assert_array_equal(compute(RoiMaxPoolOp, x, boxes, sizes=(3, 2), scale=0.5)[0], expected)


def test_samples_of_no_number_are_inside():
    x = random(0, 1, 1, 3)
    positions = np.array([[[np.nan, np.inf, -np.inf]]], np.float32)
    result = SampleOp.reference(x, positions, mode="nearest", padding="border", about_edges=False)
    np.testing.assert_array_equal(result[0, 0], [x[0, 0, 0], x[0, 0, 2], x[0, 0, 0]])


@pytest.mark.parametrize("positions", [(1, 1, 4), (2, 2, 4), (1, 2)])
def test_sample_refuses_other_positions(positions):
    image = TensorSpec((1, 3, 0 if len(positions) == 2 else 5, 5), F32)
    with pytest.raises(OpError):
        SampleOp.infer(image, TensorSpec(positions, F32), mode="linear", padding="zeros", about_edges=False)
