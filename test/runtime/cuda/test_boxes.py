"""The common part of two tensors, as copies of a driver."""

from __future__ import annotations

import numpy as np
import pytest
from stepwell.runtime.cuda.boxes import BoxPosition, boxes


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((), ()),
        ((5,), (3,)),
        ((2, 3), (4, 7)),
        ((4, 7, 8), (2, 3, 8)),
        ((2, 5, 3, 4), (3, 5, 6, 4)),
        ((2, 3, 4, 5), (3, 4, 5, 6)),
        ((3, 2, 4, 5, 2), (2, 3, 5, 4, 3)),
        ((0, 3), (2, 3)),
    ],
)
def test_copies_transfer_the_common_elements(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    given, made = np.arange(np.prod(source, dtype=int), dtype=np.int32).reshape(source), np.full(target, -1, np.int32)
    common = tuple(map(slice, map(min, source, target)))
    want = made.copy()
    want[common] = given[common]
    read, written = given.reshape(-1).view(np.uint8), made.reshape(-1).view(np.uint8)
    for box in boxes(source, target, 4):
        for plane, row in np.ndindex(box.depth, box.height):
            first, start = (side.offset + side.pitch * (row + side.rows * plane) for side in (box.target, box.source))
            written[first : first + box.width] = read[start : start + box.width]
        # The driver requires this.
        assert all(side.pitch >= box.width and side.rows >= box.height for side in (box.source, box.target))
    np.testing.assert_array_equal(made, want)


def test_contiguous_dimensions_are_one_row() -> None:
    (box,) = boxes((3, 17, 8, 4), (4, 40, 8, 4), 2)
    assert (box.width, box.height, box.depth) == (17 * 64, 3, 1)
    assert (box.source, box.target) == (BoxPosition(0, 17 * 64, 3), BoxPosition(0, 40 * 64, 4))
