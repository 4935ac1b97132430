"""Native sampling and pooling of regions, compared with the references of the ops."""

import numpy as np
import pytest
from stepwell.dialects.stepwell.movement import SampleOp
from stepwell.dialects.stepwell.regions import RoiAlignOp, RoiMaxPoolOp

RNG = np.random.default_rng(0)


def random(kind, *shape):
    return RNG.standard_normal(shape).astype(kind)


@pytest.mark.few(4)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sample(check_op, mode, padding):
    for rank in (1, 2, 3):
        positions = random(np.float32, 2, rank, 3, 7) * 6 + 2
        positions[0, 0, 0, :2] = [1e9, -1e9] if padding != "reflection" else 0
        x, about_edges = random(np.float32, 2, 3, *(5, 7, 4)[:rank]), rank != 2
        check_op(SampleOp, x, positions, mode=mode, padding=padding, about_edges=about_edges, tolerance=1e-5)


def test_sample_other_types(check_op):
    positions = random(np.float64, 1, 2, 9) * 3
    check_op(SampleOp, random(np.float64, 1, 2, 5, 6), positions, tolerance=1e-12)
    check_op(SampleOp, random(np.float16, 1, 2, 5, 6), positions.astype(np.float32), tolerance=2e-3)
    check_op(SampleOp, RNG.integers(0, 9, (1, 2, 5, 6)), positions.astype(np.float32), mode="nearest")


def test_no_position_reads_outside(check_op):
    positions = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32).reshape(1, 1, 5)
    for padding in ("zeros", "border"):
        check_op(SampleOp, random(np.float32, 1, 2, 4), positions, mode="nearest", padding=padding)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("samples", [0, 2])
def test_roi_align(check_op, samples, kind):
    boxes, images = random(kind, 5, 4) * 8, RNG.integers(0, 2, 5)
    for mode, shift in (("mean", 0.5), ("max", 0.0)):
        window = {"sizes": (3, 2), "mode": mode, "samples": samples, "shift": shift, "scale": 0.75}
        tolerance = 2e-3 if kind == np.float16 else 1e-5
        check_op(RoiAlignOp, random(kind, 2, 3, 9, 11), boxes, images, tolerance=tolerance, **window)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_roi_max_pool(check_op, kind):
    boxes = RNG.integers(-3, 20, (5, 5)).astype(kind)
    boxes[:, 0] %= 2
    check_op(RoiMaxPoolOp, random(kind, 2, 3, 9, 11), boxes, sizes=(3, 2), scale=0.75)


@pytest.mark.parametrize("channels", [1, 7, 70, 130])
def test_regions_of_any_number_of_channels(check_op, channels):
    """An infinity outside a region does not affect it."""
    images = random(np.float32, 2, channels, 9, 11)
    images[:, :, 8, 10] = np.inf
    boxes, names = RNG.integers(-3, 8, (12, 4)).astype(np.float32), RNG.integers(0, 2, 12)
    check_op(RoiAlignOp, images, boxes, names, sizes=(4, 3), samples=2, tolerance=1e-5)
    check_op(RoiMaxPoolOp, images, np.concatenate([names[:, None], boxes], 1).astype(np.float32), sizes=(4, 3))


def test_few_regions_of_a_large_image(check_op):
    images = random(np.float32, 1, 3, 60, 50)
    check_op(
        RoiAlignOp, images, np.array([[3, 4, 40, 50]], np.float32), np.zeros(1, np.int64), sizes=(2, 2), tolerance=1e-5
    )
