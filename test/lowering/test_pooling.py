"""Native pooling of any window, compared with the references of the ops."""

import numpy as np
import pytest
from stepwell.dialects.stepwell.pooling import AveragePoolOp, MaxPoolIndicesOp, MaxPoolOp, SumPoolOp

RNG = np.random.default_rng(0)


@pytest.mark.few(2)
@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
@pytest.mark.parametrize(
    ("spatial", "window"),
    [
        ((9,), {"kernel": (3,), "strides": (2,), "pads": (1, 2), "dilations": (1,)}),
        ((7, 6), {"kernel": (2, 3), "strides": (1, 2), "pads": (1, 0, 2, 1), "dilations": (2, 1)}),
        # The first dimension has a single window, which does not reach its end.
        ((3, 9), {"kernel": (2, 3), "strides": (2, 2), "pads": (0, 0, 0, 2), "dilations": (1, 1)}),
        ((5, 4, 6), {"kernel": (2, 2, 1), "strides": (2, 1, 2), "pads": (1, 0, 0, 0, 1, 0), "dilations": (1, 2, 1)}),
    ],
)
def test_windows(check_op, spatial, window, layout):
    # A few different numbers, so that some are equal.
    x = RNG.integers(-4, 5, (2, 3, *spatial)).astype(np.float32)
    x = np.moveaxis(x, 1, -1) if layout == "channels_last" else x
    for op in (MaxPoolOp, MaxPoolIndicesOp, SumPoolOp, AveragePoolOp):
        for ceil_mode in (False, True):
            check_op(op, x, layout=layout, ceil_mode=ceil_mode, tolerance=1e-6, **window)


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
@pytest.mark.parametrize(
    ("spatial", "window"),
    [
        ((6,), {"kernel": (9,), "strides": (4,), "pads": (3, 1), "dilations": (1,)}),
        ((6, 6), {"kernel": (8, 1280), "strides": (8, 1280), "pads": (0, 0, 0, 0), "dilations": (1, 1)}),
        ((2, 6), {"kernel": (2, 5), "strides": (9, 8), "pads": (3, 2, 1, 0), "dilations": (4, 3)}),
        ((3, 2, 4), {"kernel": (4, 3, 2), "strides": (3, 5, 2), "pads": (1, 0, 0, 1, 0, 1), "dilations": (2, 1, 1)}),
    ],
)
def test_kernels_larger_than_the_input(check_op, spatial, window, layout):
    x = RNG.integers(-4, 5, (2, 3, *spatial)).astype(np.float32)
    x = np.moveaxis(x, 1, -1) if layout == "channels_last" else x
    for op in (MaxPoolOp, MaxPoolIndicesOp, SumPoolOp, AveragePoolOp):
        check_op(op, x, layout=layout, ceil_mode=True, tolerance=1e-6, **window)


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int8, np.uint8])
def test_types(check_op, kind):
    x = RNG.integers(0, 9, (1, 2, 6, 7)).astype(kind)
    window = {"kernel": (3, 2), "strides": (1, 2), "pads": (1, 0, 1, 1), "dilations": (1, 1)}
    for op in (MaxPoolOp, MaxPoolIndicesOp, *([SumPoolOp] if np.dtype(kind).kind == "f" else [])):
        check_op(op, x, tolerance=1e-3, **window)


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
@pytest.mark.parametrize("height", [16, 33])
def test_images_of_one_column(check_op, height, layout):
    """Vectors run along the height; windows reach into the padding of both dimensions."""
    x = RNG.standard_normal((2, 1, height, 1)).astype(np.float32)
    x = np.moveaxis(x, 1, -1) if layout == "channels_last" else x
    window = {"kernel": (5, 3), "strides": (1, 1), "pads": (2, 1, 2, 1), "dilations": (1, 1)}
    for op in (MaxPoolOp, SumPoolOp, AveragePoolOp):
        check_op(op, x, layout=layout, tolerance=1e-6, **window)
