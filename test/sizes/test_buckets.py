"""Ranges of sizes and their division into buckets."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.runtime.program import TensorInfo
from stepwell.sizes.buckets import parse_dims
from stepwell.sizes.ranges import Range
from stepwell.support.errors import InputError

INPUTS = (TensorInfo("x", np.dtype(np.float32), ("n", 3, "m")),)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"n": 1}, "dimension 'm' varies, but `dims` gives no size for it"),
        ({"n": 1, "m": 2, "k": 3}, "no dimension is called 'k'; the dynamic dimensions are 'n', 'm'"),
        ({"n": (3, 1), "m": 2}, "starts above its end"),
        ({"n": (1, 2, 3, 4), "m": 2}, r"a range is \(low, high\) or"),
        ({"n": [], "m": 2}, "a list of buckets must not be empty"),
        ({"n": -1, "m": 2}, "a size must not be negative, but is -1"),
        ({"n": 1.5, "m": 2}, "1.5 is not a size, a range or a list of buckets"),
    ],
)
def test_dims_that_make_no_sense_are_refused(dims, message):
    with pytest.raises(InputError, match=message):
        parse_dims(dims, INPUTS)


def test_buckets_are_all_combinations():
    ranges, buckets = parse_dims({"n": [2, 8], "m": (1, 7, 2)}, INPUTS)
    assert ranges == {"n": Range(1, 8), "m": Range(1, 7, 2)}
    assert buckets == [{"n": Range(1, 2), "m": Range(1, 7, 2)}, {"n": Range(3, 8), "m": Range(1, 7, 2)}]


@pytest.mark.parametrize(
    ("dims", "highs"),
    [
        ({"n": (1, 9), "m": (1, 50)}, {"n": [9], "m": [50]}),
        ({"n": 3, "m": (1, 512)}, {"m": [32, 128, 512]}),
        ({"n": (1, 64), "m": (1, 512)}, {"n": [1, 64], "m": [32, 128, 512]}),
        ({"n": (2, 960), "m": (32, 960, 32)}, {"n": [960], "m": [32, 224, 960]}),
        ({"n": [512], "m": 3}, {"n": [512]}),
    ],
)
def test_wide_ranges_are_cut_into_few_buckets_on_request(dims, highs):
    ranges, buckets = parse_dims(dims, INPUTS, is_divided=True)
    for name, wanted in highs.items():
        parts = sorted({bucket[name] for bucket in buckets}, key=lambda part: part.high)
        assert [part.high for part in parts] == wanted
        low, high, step = ranges[name].low, ranges[name].high, ranges[name].step
        assert [size for part in parts for size in range(part.low, part.high + 1, part.step)] == [
            *range(low, high + 1, step)
        ]


def test_ranges_that_are_given_as_a_whole_are_one_bucket():
    assert parse_dims({"n": (1, 2), "m": (0, 4096)}, INPUTS)[1] == [{"n": Range(1, 2), "m": Range(0, 4096)}]
