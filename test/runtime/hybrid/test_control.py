"""Control flow on the host: operands that it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.runtime.hybrid.control import Sliced, loop, scan, single
from stepwell.support.errors import RuntimeFailure


def test_a_limit_is_one_number():
    with pytest.raises(RuntimeFailure, match=r"iteration count of a Loop must be one number, but is of shape \(2,\)"):
        loop(np.array([1, 2]), None, [], [], lambda values: [np.array(False)])


def test_a_condition_is_one_number():
    with pytest.raises(RuntimeFailure, match="the condition of an If must be one number, but is a NoneType"):
        single(None, "the condition of an If")
    with pytest.raises(RuntimeFailure, match=r"the condition of a Loop must be one number, but is of shape \(0,\)"):
        loop(None, None, [], [], lambda values: [np.zeros(0, np.bool_)])


def test_inputs_of_a_scan_have_one_length():
    with pytest.raises(RuntimeFailure, match="inputs of one length, but they have 2, 3"):
        scan([], [np.zeros(2), np.zeros(3)], [Sliced(), Sliced()], [], lambda values: [])
