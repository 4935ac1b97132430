"""The blocks of kernels for images of varying size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.lowering.linalg_to_vector.schedules.tiles import Extents, whole_tiles
from stepwell.lowering.target import Target

IMAGE = Extents(Target.parse("x86-64-v4").machine, (30, 30), (0, 1), 8, 48, (384,), 4, typical=((9, 9), (30, 30)))


@pytest.mark.parametrize(
    ("tile", "block", "wanted"),
    [
        ((1, 9), [15, 30], [15, 30]),
        ((2, 4), [15, 30], [10, 30]),
        ((8, 1), [16, 30], [30, 30]),
        ((3, 3), [15, 15], [15, 15]),
    ],
)
def test_blocks_are_of_whole_tiles_and_hardly_overlap(tile, block, wanted):
    assert whole_tiles(IMAGE, tile, block) == wanted


def test_blocks_stay_where_nothing_varies_or_rows_are_no_image():
    assert whole_tiles(replace(IMAGE, typical=()), (8, 1), [15, 30]) == [15, 30]
    assert whole_tiles(replace(IMAGE, outer=(1, 30)), (1, 8), [1, 15]) == [1, 15]


@given(st.tuples(*[st.integers(2, 300)] * 2), st.tuples(*[st.integers(1, 16)] * 2), st.data())
def test_every_block_is_of_whole_tiles_or_all(sizes, tile, data):
    tile = [min(step, size) for step, size in zip(tile, sizes, strict=True)]
    block = [data.draw(st.integers(step, size)) for step, size in zip(tile, sizes, strict=True)]
    found = whole_tiles(replace(IMAGE, outer=sizes), tile, block)
    for size, step, part in zip(sizes, tile, found, strict=True):
        assert part == size or (part % step == 0 and -size % part <= size / 20)
