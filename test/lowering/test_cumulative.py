"""Native running totals, compared with the reference of the op."""

import ml_dtypes
import numpy as np
import pytest
from stepwell.dialects.stepwell.cumulative import CumulativeOp

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("reverse", "exclusive"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 37), 1), ((3, 37), 0), ((5, 7, 67), 1), ((2, 9, 3), 1), ((700, 33), 1), ((1,), 0), ((0, 4), 0)],
)
def test_every_way_along_every_axis(check_op, shape, axis, reverse, exclusive):
    x = RNG.integers(-9, 9, shape).astype(np.float32)
    check_op(CumulativeOp, x, axis=axis, reverse=reverse, exclusive=exclusive)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.uint32, np.int64])
@pytest.mark.parametrize("mode", ["sum", "product"])
def test_every_type(check_op, kind, mode):
    x = RNG.integers(1, 3, (4, 70)).astype(kind)
    for axis in (0, 1):
        check_op(CumulativeOp, x, axis=axis, mode=mode)


def test_infinity_and_nan_change_only_what_follows(check_op):
    """An infinity or NaN changes only the elements after it."""
    x = np.ones((3, 40), np.float32)
    x[0, 20], x[1, 5], x[1, 30], x[2, 0] = np.inf, -np.inf, np.nan, -0.0
    for reverse in (False, True):
        check_op(CumulativeOp, x, axis=1, reverse=reverse, exclusive=True)
