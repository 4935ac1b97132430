"""Tests of ranges of sizes."""

import itertools

import numpy as np
from stepwell.sizes.ranges import MOST_COMBINATIONS, Range, spread_sizes


def test_spread_sizes_combines_all_sizes_of_few_dimensions() -> None:
    """Sizes of two short ranges are all of their combinations."""
    found = spread_sizes({"rows": Range(1, 3), "columns": Range(2, 8, 2)})
    pairs = list(zip(found["rows"].tolist(), found["columns"].tolist(), strict=True))
    assert pairs == list(itertools.product((1, 2, 3), (2, 4, 6, 8)))


def test_spread_sizes_draws_combinations_of_many_dimensions() -> None:
    """Combinations of many ranges are bounded in number, contain all sizes of each, and are the same each time."""
    ranges = {f"size{number}": Range(2, 4096) for number in range(20)}
    found = spread_sizes(ranges)
    (alone,) = spread_sizes({"size0": ranges["size0"]}).values()
    assert list(found) == list(ranges)
    for sizes in found.values():
        assert len(sizes) == MOST_COMBINATIONS
        assert np.unique(sizes).tolist() == alone.tolist()
        assert (sizes[0], sizes[1]) == (2, 4096)
    assert not np.array_equal(found["size0"], found["size1"])
    again = spread_sizes(ranges)
    assert all(np.array_equal(found[name], again[name]) for name in ranges)
