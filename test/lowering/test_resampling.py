"""Native resampling by tables and padding, compared with the references of the ops."""

import numpy as np
import pytest
from stepwell.dialects.stepwell.movement import PadOp, ResampleOp

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("terms", [1, 11])
@pytest.mark.parametrize(("shape", "axis"), [((1, 1, 4, 5), 2), ((2, 3, 4, 33), 3), ((2, 3, 4, 33), 1), ((9,), 0)])
def test_resample(check_op, kind, terms, shape, axis):
    x = RNG.standard_normal(shape).astype(kind)
    # Some indices are outside.
    indices = RNG.integers(-1, shape[axis] + 1, (terms, 7))
    weights = RNG.standard_normal((terms, 7)).astype(np.float64 if kind == np.float64 else np.float32)
    check_op(ResampleOp, x, indices, weights, axis=axis, tolerance=5e-3 if kind == np.float16 else 1e-5)


def test_wrapped_padding(check_op):
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    check_op(PadOp, x, low=(1, 0), high=(2, 3), mode="wrap")
    check_op(PadOp, x, low=(7, 11), high=(9, 4), mode="wrap")
