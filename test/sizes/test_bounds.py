"""The sizes that programs serve, and their records."""

from __future__ import annotations

import pytest
from stepwell.sizes.bounds import Bounds, decode_bounds, encode_bounds, union
from stepwell.sizes.ranges import Range, check_ranges


def test_bounds_survive_being_written():
    bounds = Bounds({"n": Range(1, 8, 1)}, ("n", ["*", "n", 2]), (("n", 4),))
    assert decode_bounds(encode_bounds(bounds)) == bounds
    with pytest.raises(ValueError, match="from a smaller to a larger"):
        decode_bounds({**(encode_bounds(bounds) or {}), "ranges": {"n": [8, 1, 1]}})


def test_ranges_of_programs_make_one():
    several = [Bounds({"n": Range(1, 4)}), Bounds({"n": Range(5, 16)})]
    assert union(several) == {"n": Range(1, 16)}
    check_ranges(union(several), {"n": 16})
