"""Tiles of a matrix unit: parts of equal length, and shapes that fit its registers."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from stepwell.lowering.target import Target
from stepwell.machines.matrix_units import ROWS, choose_tile, divisor, even_parts, has_matrix_unit
from stepwell.runtime import processor


@given(size=st.integers(1, 200), most=st.integers(1, 64))
def test_parts_of_equal_length_cover_everything(size: int, most: int) -> None:
    starts, part = even_parts(size, most)
    assert part <= most
    assert {place for start in starts for place in range(start, start + part)} == set(range(size))
    assert len(starts) == -(-size // most)


@given(size=st.integers(1, 500), most=st.integers(1, 64))
def test_divisors_leave_nothing(size: int, most: int) -> None:
    part = divisor(size, most)
    assert size % part == 0 and part <= most
    assert not any(size % other == 0 for other in range(part + 1, min(size, most) + 1))


@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=2),
    lanes=st.sampled_from([1, 8, 16, 24, 32, 48, 64]),
    grains=st.integers(1, 16),
)
def test_tiles_fit_the_registers(sizes: list[int], lanes: int, grains: int) -> None:
    shape, columns = choose_tile(sizes, lanes, grains)
    assert lanes % columns == 0
    assert all(1 <= part <= size for part, size in zip(shape, sizes, strict=True))
    down, across = math.prod(shape[:-1]) * -(-shape[-1] // ROWS), -(-columns // 16)
    assert down * across + down + 1 <= 8


def test_a_square_of_tiles_is_best_for_many_rows() -> None:
    assert choose_tile([1024], 32, 16) == ([32], 32)
    assert choose_tile([56, 56], 64, 16)[1] == 32


def test_machines_have_a_unit_by_their_features() -> None:
    assert has_matrix_unit(Target.parse("cpu:sapphirerapids").machine)
    assert not has_matrix_unit(Target.parse("x86-64-v4").machine)
    is_granted = "amxint8" in (processor.features() or ())
    assert has_matrix_unit(Target.host().machine) == is_granted
