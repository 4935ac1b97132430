"""Tolerances that separate rounding from faults."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.explain.bisect.comparison import NOISE_FACTOR, Tolerance, approximation_error, compare


def test_functions_of_other_systems_may_be_off_near_zero() -> None:
    got, want = np.float32([5.28e-8, 3e-8]), np.float32([1.79e-7, 3e-8])
    off = approximation_error(want.dtype) / NOISE_FACTOR
    assert compare(got, want, Tolerance()).is_wrong
    assert not compare(got, want, Tolerance(), off).is_wrong
    assert compare(got + np.float32(1e-5), want, Tolerance(), off).is_wrong


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
def test_exact_types_have_no_tolerance(dtype: type) -> None:
    assert approximation_error(np.dtype(dtype)) == 0
    assert compare(np.ones(2, dtype), np.zeros(2, dtype), Tolerance()).wrong == 2
