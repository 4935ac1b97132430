"""Rows gathered by index, compared with the reference of the op."""

import numpy as np
import pytest
from stepwell.dialects.stepwell.movement import TakeRowsOp

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("width", [1, 5, 48])
def test_take_rows(check_op, width):
    x = RNG.standard_normal((3, 4, width), np.float32)
    check_op(TakeRowsOp, x, np.array([5, 0, 11, 3, 99, -1, -99]), leading=2, extents=(), tolerance=0)
    check_op(TakeRowsOp, x, np.array([[2, 1], [0, 1]], np.int32), leading=1, extents=(), tolerance=0)
    check_op(TakeRowsOp, x, np.array(7 * width), leading=3, extents=(), tolerance=0)
