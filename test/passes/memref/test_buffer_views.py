"""Buffer views: their elements are those of array slices, and overlaps and overwritten elements are detected."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from stepwell.passes.memref.buffer_views import Buffer, BufferView, TensorLocation, Writes

# Start, size and step for each of three dimensions; a dimension needs at most 3 + (3 - 1) * 2 + 1 elements.
BOXES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 2)), min_size=3, max_size=3)
WHOLE = (8, 10, 12)

Box = list[tuple[int, int, int]]


def part(view: BufferView, box: Box) -> BufferView:
    starts, sizes, steps = (list(row) for row in zip(*box, strict=True))
    return view.part((starts, sizes, steps), sizes)


def sliced(array: np.ndarray, box: Box) -> np.ndarray:
    return array[tuple(slice(start, start + size * step, step) for start, size, step in box)]


def elements(view: BufferView) -> list[int]:
    places = itertools.product(*map(range, view.sizes))
    return [view.offset + sum(at * step for at, step in zip(place, view.strides, strict=True)) for place in places]


@given(BOXES)
def test_part_has_the_elements_of_a_slice(box: Box) -> None:
    array = np.arange(np.prod(WHOLE)).reshape(WHOLE)
    view, wanted = part(BufferView.of(WHOLE), box), sliced(array, box)
    assert elements(view) == list(wanted.flat)
    assert view.span == wanted.flat[-1] - wanted.flat[0] + 1


@given(BOXES, BOXES)
def test_views_that_share_an_element_overlap(first: Box, second: Box) -> None:
    one, other = part(BufferView.of(WHOLE), first), part(BufferView.of(WHOLE), second)
    if set(elements(one)) & set(elements(other)):
        assert one.overlaps(other) and other.overlaps(one)


@given(st.integers(0, 2), st.integers(0, 2))
def test_channels_side_by_side_do_not_overlap(first: int, second: int) -> None:
    one, other = (part(BufferView.of(WHOLE), [(0, 8, 1), (0, 10, 1), (4 * at, 4, 1)]) for at in (first, second))
    assert one.overlaps(other) == (first == second)


def test_reshape_of_a_contiguous_part() -> None:
    rows = part(BufferView.of((6, 4)), [(2, 3, 1), (0, 4, 1)])
    assert rows.is_contiguous and rows.is_part and not rows.is_whole
    assert elements(rows.reshaped((2, 6))) == list(range(8, 20))


def test_later_writes_hide_earlier_ones() -> None:
    buffer, whole = Buffer(96), BufferView.of((6, 4))
    top, middle = (part(whole, [(start, 3, 1), (0, 4, 1)]) for start in (0, 2))
    writes = Writes()
    writes.record(TensorLocation(buffer, top, since=1))
    writes.record(TensorLocation(buffer, middle, since=2))
    assert writes.hide(TensorLocation(buffer, top, since=1))
    assert not writes.hide(TensorLocation(buffer, middle, since=2))
    assert not writes.hide(TensorLocation(Buffer(96), top, since=1))
