"""Placement of parameters in memory."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.runtime.specialization import parameters


@pytest.mark.parametrize("shape", [(7, 11), (1000,), ()])
def test_one_element_fills_all_of_its_memory(monkeypatch, shape):
    monkeypatch.setattr(parameters, "_PART_BYTES", 64)
    dense = np.zeros(shape, np.float32)
    parameters.fill(dense, np.broadcast_to(np.float32(2.5), shape))
    assert (dense == np.float32(2.5)).all()


def test_other_layouts_are_copied():
    array, dense = np.arange(12, dtype=np.float32).reshape(3, 4).T, np.zeros((4, 3), np.float32)
    parameters.fill(dense, array)
    np.testing.assert_array_equal(dense, array)
