"""Regions of the arrays of a call: their extents, and what they share."""

from __future__ import annotations

import numpy as np
import pytest

from .memory import Memory


def test_arrays_have_regions_of_their_own() -> None:
    x, y = np.arange(6, dtype=np.int32), np.zeros(3, np.int32)
    memory = Memory([x], [y], [y.nbytes])
    assert [memory.regions[number].nbytes for number, _ in memory.places] == [24, 12]
    assert [memory.written[number] for number, _ in memory.places] == [False, True]
    memory.regions[memory.places[1][0]][...] = 1
    np.testing.assert_array_equal(y, [0x01010101] * 3)


def test_an_input_with_gaps_ends_with_its_last_element() -> None:
    whole = np.zeros((2, 5, 3), np.float32)
    memory = Memory([whole[:, :2]], [], [])
    assert [region.nbytes for region in memory.regions] == [(5 + 2) * 3 * 4]


def test_an_output_has_room_for_more() -> None:
    whole = np.zeros(10, np.int64)
    (region,) = Memory([], [whole[:4]], [whole.nbytes]).regions
    region[72:] = 1
    assert not whole[:9].any() and whole[9]


def test_arrays_in_the_same_memory_share_a_region() -> None:
    whole = np.zeros((4, 8), np.float32)
    other = np.zeros(2, np.float32)
    memory = Memory([whole[1:, :3], other, whole[:0]], [whole], [whole.nbytes])
    numbers, offsets = zip(*memory.places, strict=True)
    assert numbers[0] == numbers[3] != numbers[1] and offsets[0] == 32 and offsets[3] == 0
    assert memory.regions[numbers[0]].nbytes == whole.nbytes and memory.written[numbers[0]]
    assert not memory.written[numbers[1]]


def test_negative_steps_backwards() -> None:
    with pytest.raises(ValueError, match="strides"):
        Memory([np.zeros(4)[::-1]], [], [])
