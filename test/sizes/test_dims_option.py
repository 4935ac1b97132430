"""Dimensions that follow from others: declared, or by their names."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.runtime.program import TensorInfo
from stepwell.sizes.dims_option import resolve_dims
from stepwell.support.errors import InputError

INPUTS = (TensorInfo("x", np.dtype(np.float32), ("n", 3, "m")),)


def test_dimensions_go_by_the_name_of_the_one_that_has_sizes():
    inputs = [TensorInfo(name, np.dtype(np.float32), (name, 3)) for name in "abc"]
    found = resolve_dims({"a": "b", "b": "c", "c": (1, 8)}, inputs)
    assert found.dims == {"c": (1, 8)} and [info.shape for info in found.inputs] == [("c", 3)] * 3
    assert resolve_dims({"a": 1, "b": 2, "c": 3}, inputs).inputs == tuple(inputs)


def test_names_that_are_sums_of_others_follow_from_them():
    inputs = [TensorInfo("x", np.dtype(np.float32), ("past", "past + length", "length", "length - other"))]
    found = resolve_dims({"past": (0, 8), "length": 2, "length - other": 1}, inputs)
    assert found.derived == {"past + length": ["+", "past", "length"]}
    assert found.dims == {"past": (0, 8), "length": 2, "length - other": 1}
    assert resolve_dims({}, inputs).derived == {}  # expressions in a file are only used if sizes are named
    wide = {"past": (0, 8), "length": (1, 2), "length - other": 1}
    assert resolve_dims({**wide, "past + length": (1, 10)}, inputs).dims == wide
    with pytest.raises(InputError, match=r"goes from 1 to 10, which \(1, 9\) does not contain: leave it out"):
        resolve_dims({**wide, "past + length": (1, 9)}, inputs)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"n": "k", "m": 1}, "no dimension is called 'k'; the dynamic dimensions are 'n', 'm'"),
        ({"k": "n", "n": 1, "m": 1}, "no dimension is called 'k'"),
        ({"n": "m", "m": "n"}, "dimension 'n' follows from itself"),
        ({"n": "n", "m": 1}, "dimension 'n' follows from itself"),
        ({"n": "m + n", "m": 1}, "dimension 'n' follows from itself"),
        ({"n": "m + k", "m": 1}, "no dimension is called 'k'"),
        ({"n": "m +", "m": 1}, r"dimension 'n': 'm \+' is not an expression over dimensions"),
        ({"n": "m ** 2", "m": 1}, "is not an expression"),
        ({"n": "m) + 1", "m": 1}, "is not an expression"),
        ({"n": "(m" * 600, "m": 1}, "at most 1000 characters, but this one has 1200"),
    ],
)
def test_dimensions_like_none_are_refused(dims, message):
    with pytest.raises(InputError, match=message):
        resolve_dims(dims, INPUTS)
