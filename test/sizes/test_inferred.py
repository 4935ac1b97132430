"""Ranges inferred from the sizes of calls contain these, and grow so that few are needed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.sizes.buckets import parse_dims
from stepwell.sizes.dims_option import resolve_dims
from stepwell.sizes.inferred import corners, inferred_dims, raised
from stepwell.sizes.ranges import Range


@dataclass(frozen=True)
class Input:
    """An input of a model."""

    shape: tuple[int | str, ...]


TEXT = (Input(("batch", "length")),)
IMAGE = (Input(("batch", 3, "height", "width")),)


def first_range(inputs: tuple[Input, ...], *seen: dict[str, int]) -> dict[str, Range]:
    """Returns the ranges of the first choice."""
    ranges, (bucket,) = parse_dims(inferred_dims(seen, inputs)[0], inputs)
    assert ranges == bucket
    return bucket


def test_only_dimensions_that_varied_vary() -> None:
    assert first_range(TEXT, {"batch": 1, "length": 17}, {"batch": 1, "length": 40}) == {
        "batch": Range(1, 1),
        "length": Range(1, 256),
    }


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((3, 5), (1, 32)), ((17, 130), (1, 512)), ((100, 700), (1, 1024)), ((0, 5), (0, 32)), ((1024, 1), (1, 1024))],
)
def test_a_range_ends_well_above_small_sizes_and_at_the_next_power_of_two_above_large_ones(
    sizes: tuple[int, int], expected: tuple[int, int]
) -> None:
    seen = [{"batch": 2, "length": size} for size in sizes]
    assert first_range(TEXT, *seen)["length"] == Range(*expected)


def test_batches_have_less_room() -> None:
    seen = [{"batch": size, "length": 7} for size in (1, 12)]
    assert first_range(TEXT, *seen) == {"batch": Range(1, 32), "length": Range(7, 7)}


def test_images_on_a_grid_stay_on_it_first() -> None:
    seen = [{"batch": 1, "height": 320, "width": 480}, {"batch": 1, "height": 640, "width": 512}]
    choices = inferred_dims(seen, IMAGE)
    assert choices[0] == {"batch": 1, "height": [(32, 1024, 32)], "width": [(32, 512, 32)]}
    assert choices[1]["height"] == [(1, 1024)]
    assert choices[-1]["height"] == [(320, 640)]


def test_text_on_a_grid_does_not_stay_on_it() -> None:
    choices = inferred_dims([{"batch": 1, "length": 64}, {"batch": 1, "length": 128}], TEXT)
    assert [choice["length"] for choice in choices[:2]] == [[(1, 512)], [(32, 512, 32)]]


def test_dimensions_that_were_always_equal_are_one_at_first() -> None:
    inputs = (Input(("n", "a")), Input(("m", "a")))
    choices = inferred_dims([{"n": 1, "m": 1, "a": 4}, {"n": 6, "m": 6, "a": 4}], inputs)
    assert choices[0]["m"] == "n"
    assert choices[1]["m"] == [(1, 32)]
    (bucket,) = parse_dims(choices[1], inputs)[1]
    assert set(bucket) == {"n", "m", "a"}


def test_a_dimension_that_follows_from_others_by_its_name_is_left_out() -> None:
    inputs = (Input(("past", "now")), Input(("past + now",)))
    seen = [{"past": 0, "now": 5, "past + now": 5}, {"past": 5, "now": 1, "past + now": 6}]
    for choice in inferred_dims(seen, inputs):
        assert set(choice) == {"past", "now"}
        assert "past + now" in resolve_dims(choice, inputs).derived


def test_corners_are_the_ends_of_ranges() -> None:
    assert corners({"n": Range(1, 8), "m": Range(3, 3)}) == [{"n": 1, "m": 3}, {"n": 8, "m": 3}]


def test_sizes_that_depend_on_data_may_be_0_and_are_no_batches() -> None:
    first, second, *_ = inferred_dims([{"batch": 3, "length": 8}, {"batch": 5, "length": 8}], TEXT, may_be_empty=True)
    assert first == {"batch": [(0, 32)], "length": 8}
    assert second == {"batch": [(1, 32)], "length": 8}


SIZES = st.fixed_dictionaries({name: st.integers(0, 5000) for name in ("batch", "height", "width")})


@given(st.lists(SIZES, min_size=2, max_size=6))
def test_every_choice_contains_all_sizes_seen(seen: list[dict[str, int]]) -> None:
    if all(sizes == seen[0] for sizes in seen):
        return
    for choice in inferred_dims(seen, IMAGE):
        resolved = resolve_dims(choice, IMAGE)
        _, (bucket,) = parse_dims(resolved.dims, resolved.inputs)
        for sizes in seen:
            assert all(sizes[name] in values for name, values in bucket.items())
            assert all(sizes[name] == sizes[other] for name, other in choice.items() if isinstance(other, str))


@given(st.lists(st.integers(1, 100_000), min_size=2, max_size=60))
def test_the_number_of_ranges_is_logarithmic_in_the_largest_size(sizes: list[int]) -> None:
    ranges: list[Range] = []
    seen = [{"batch": 1, "length": sizes[0]}]
    for size in sizes[1:]:
        if size == sizes[0] or any(size in item for item in ranges):
            continue
        ends = [{"batch": 1, "length": end} for item in ranges[-1:] for end in (item.low, item.high)]
        ranges.append(first_range(TEXT, *seen, *ends, {"batch": 1, "length": size})["length"])
    assert len(ranges) <= max(sizes).bit_length()


def test_lower_bounds_are_raised_in_steps() -> None:
    dims = {"n": [(1, 128)], "m": [(32, 512, 32)], "other": "n", "batch": 2}
    sizes = {"n": 9, "m": 128, "other": 9, "batch": 2}
    assert raised(dims, sizes, 0, 4) == dims
    assert raised(dims, sizes, 1, 4) == {**dims, "n": [(3, 128)], "m": [(64, 512, 32)]}
    assert raised(dims, sizes, 4, 4) == {**dims, "n": [(9, 128)], "m": [(128, 512, 32)]}
