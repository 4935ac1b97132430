"""Inputs that a program appends to, as calls bring them."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.runtime.execution.layouts import Layouts
from stepwell.sizes.layouts import Appended


@pytest.mark.parametrize("length", [0, 5])
def test_calls_with_inputs_of_the_same_layout_share_a_table(length: int) -> None:
    layouts = Layouts([Appended(0, -1, (-1, 0, 1))], np.zeros(2, np.int64))
    whole = np.zeros((1, 3, 8, 4), np.float32)
    first, second = ([whole[:, :, :length]] for _ in range(2))
    table = layouts.fill(first, in_place=False)
    assert layouts.fill(second, in_place=False) is table
    assert table.tolist() == [32, length]
    assert first[0].base is whole


def test_an_input_without_elements_is_not_copied() -> None:
    layouts = Layouts([Appended(0, -1, (-1, 0, 1))], np.zeros(2, np.int64))
    inputs = [np.zeros((1, 3, 0, 4), np.float32)]
    assert layouts.fill(inputs, in_place=False) is layouts.fill(inputs, in_place=False)
