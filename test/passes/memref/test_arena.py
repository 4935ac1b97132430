"""Placement in the arena: buffers with overlapping lifetimes never share memory, and little memory is wasted."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from stepwell.passes.memref.arena import ALIGNMENT, Arena, Lifetime, Placement, arena_size, lower_bound, place

SIZES = st.integers(0, 100_000)
STEPS = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)
LIFETIMES = st.lists(st.builds(lambda size, steps: Lifetime(size, *steps), SIZES, STEPS), max_size=40)


@given(LIFETIMES)
@settings(deadline=None)
def test_buffers_alive_together_do_not_overlap(lifetimes: list[Lifetime]) -> None:
    placed = place(lifetimes)
    assert [item.lifetime for item in placed] == lifetimes
    assert all(item.offset % ALIGNMENT == 0 for item in placed)
    for index, one in enumerate(placed):
        for other in placed[:index]:
            together = one.lifetime.overlaps(other.lifetime) and one.lifetime.size and other.lifetime.size
            assert not together or one.end <= other.offset or other.end <= one.offset


@given(LIFETIMES)
@settings(deadline=None)
def test_the_lower_bound_is_one(lifetimes: list[Lifetime]) -> None:
    assert lower_bound(lifetimes) <= arena_size(place(lifetimes))


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=50)
def test_graphs_waste_less_than_a_third(seed: int) -> None:
    lifetimes = random_graph(random.Random(seed))
    assert arena_size(place(lifetimes)) <= 1.3 * lower_bound(lifetimes)


def random_graph(rng: random.Random) -> list[Lifetime]:
    """Temporaries of a network: most are read by the next op, and some again much later (a skip connection)."""
    count = rng.randrange(5, 150)
    scale = [64 * rng.randrange(1, 4096) for _ in range(6)]
    return [
        Lifetime(rng.choice(scale), step, min(count, step + (1 if rng.random() < 0.7 else rng.randrange(1, 12))))
        for step in range(count)
    ]


def test_a_buffer_takes_the_smallest_gap_that_suffices() -> None:
    def offset_of(size: int, first: int = 0, last: int = 9) -> int:
        arena = Arena(4)
        for offset in (64 + 256, 0, 64 + 256 + 64 + 128):
            arena.hold(Placement(Lifetime(64, 0, 9), offset))
        return arena.add(Lifetime(size, first, last))

    assert offset_of(100) == 64 + 256 + 64
    assert offset_of(200) == 64
    assert offset_of(300) == 64 + 256 + 64 + 128 + 64
    assert offset_of(300, 10, 11) == 0


def test_nothing_takes_no_memory() -> None:
    assert arena_size(place([])) == lower_bound([]) == 0
