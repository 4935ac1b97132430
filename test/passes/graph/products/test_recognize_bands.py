"""Recognition of masks that are bands."""

import numpy as np
import pytest
from stepwell.dialects.stepwell.attention import UNBOUNDED
from stepwell.passes.graph.products.recognize_bands import band_of

ALL = np.ones((8, 12), bool)


@pytest.mark.parametrize(
    ("allowed", "band"),
    [
        (np.tril(ALL), (UNBOUNDED, 0)),
        (np.tril(ALL, 4), (UNBOUNDED, 4)),
        (np.triu(np.tril(ALL, 2), -3), (3, 2)),
        (np.triu(ALL), (0, UNBOUNDED)),
        (ALL, (UNBOUNDED, UNBOUNDED)),
    ],
)
def test_bands(allowed, band):
    assert band_of(allowed) == band


@pytest.mark.parametrize("allowed", [np.tril(ALL, -1), np.tril(ALL) & (np.arange(12) != 3), ~ALL, np.triu(ALL, 1)])
def test_negative_masks_that_are_not_bands(allowed):
    assert band_of(allowed) is None
