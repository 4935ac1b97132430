"""Sizes inside of a model in parts."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.sizes.deduced import DeducedSizes
from stepwell.sizes.ranges import Range


@dataclass(frozen=True)
class Input:
    shape: tuple[int | str, ...]


HALF = ["floordiv", ["+", "n", 1], 2]


def known() -> DeducedSizes:
    return DeducedSizes({"n": Range(1, 9)}, {"m": ["+", "n", 1]})


def test_expressions_of_one_value_have_one_name():
    sizes = known()
    assert sizes.named(["+", 2, 3], "a.0") == 5
    assert sizes.named("n", "a.1") == "n"
    assert sizes.named(["+", ["*", "n", 1], 1], "a.2") == "m"
    assert sizes.named(HALF, "a.3") == "a.3"
    assert sizes.named(["floordiv", "m", 2], "b.0") == "a.3"


def test_sizes_follow_from_others_only_if_the_inputs_have_these():
    sizes = known()
    sizes.named(HALF, "a.0")
    assert sizes.of_inputs([Input((3, "n")), Input(("a.0",))]) == ({"n": Range(1, 9)}, {"a.0": HALF})
    assert sizes.of_inputs([Input(("a.0", "m"))]) == ({"a.0": Range(1, 5), "m": Range(2, 10)}, {})


def test_a_size_that_depends_on_data_starts_at_0():
    sizes = known()
    assert sizes.add("places.1", 27) == "places.1"
    assert sizes.named(["*", "places.1", 2], "c.0") == "c.0"
    assert sizes.of_inputs([Input((2, "places.1"))]) == ({"places.1": Range(0, 27)}, {})
