"""Memory planning: offsets of buffers in one arena, such that buffers alive at the same time do not overlap.

Steps are numbered in program order. A buffer is alive from the step that first writes it to the one that last reads it,
both included. Offsets come from greedy best fit in several orders, since none is always best. Then the topmost buffer
is moved to the front of the order, repeatedly, as long as that may help.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64
"""Alignment of buffers in bytes: a cache line of most CPUs, and a vector of AVX-512. `runtime.memory` has the same."""
# Search limits: maximum number of rounds after the simple orders, and of buffers placed in all of them.
_ROUNDS, _WORK = 64, 15_000


@dataclass(frozen=True)
class Lifetime:
    """Size and lifetime of a buffer.

    Attributes:
        size: size in bytes.
        first: first step at which it is alive.
        last: last step at which it is alive, included.
    """

    size: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Returns whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Placement:
    """A buffer with its offset.

    Attributes:
        lifetime: size and lifetime of the buffer.
        offset: offset from the start of the arena in bytes, a multiple of `ALIGNMENT`.
    """

    lifetime: Lifetime
    offset: int

    @property
    def end(self) -> int:
        """The offset of the first byte after the buffer, rounded up to `ALIGNMENT`."""
        return self.offset + align(self.lifetime.size)


_ORDERS: tuple[Callable[[Lifetime], tuple[int, int]], ...] = (
    lambda item: (-item.size, item.first),
    lambda item: (-item.size * (item.last - item.first + 1), item.first),
    lambda item: (item.first - item.last, -item.size),
    lambda item: (item.first, -item.size),
)


def align(size: int) -> int:
    """`size` rounded up to a multiple of `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(lifetimes: Sequence[Lifetime]) -> list[Placement]:
    """Places all buffers; the result is in the order of `lifetimes`."""
    bound, everything = lower_bound(lifetimes), range(len(lifetimes))
    best_order = min(
        (sorted(everything, key=lambda index: key(lifetimes[index])) for key in _ORDERS), key=_size(lifetimes)
    )
    best = order = _place_in_order(lifetimes, best_order), best_order
    for _ in range(min(_ROUNDS, _WORK // max(1, len(lifetimes)))):
        if arena_size(best[0]) == bound:
            break
        # The topmost buffer was placed under the worst conditions, so it moves to the front of the order.
        placed, sequence = order
        top = max(everything, key=lambda index: placed[index].end)
        sequence = [top, *(index for index in sequence if index != top)]
        order = _place_in_order(lifetimes, sequence), sequence
        best = min(best, order, key=lambda item: arena_size(item[0]))
    return best[0]


def place_apart(lifetimes: Iterable[Lifetime]) -> list[Placement]:
    """Places all buffers without sharing of memory, as a baseline for plans."""
    placed, end = [], 0
    for lifetime in lifetimes:
        placed.append(Placement(lifetime, end))
        end = placed[-1].end
    return placed


def _size(lifetimes: Sequence[Lifetime]) -> Callable[[Sequence[int]], int]:
    return lambda order: arena_size(_place_in_order(lifetimes, order))


def _place_in_order(lifetimes: Sequence[Lifetime], order: Sequence[int]) -> list[Placement]:
    arena, offsets = Arena(len(lifetimes)), [0] * len(lifetimes)
    for index in order:
        offsets[index] = arena.add(lifetimes[index])
    return list(map(Placement, lifetimes, offsets))


class Arena:
    """Placed buffers in the order of their offsets, as columns of a table: the search for gaps is most of planning."""

    def __init__(self, most: int) -> None:
        """Starts empty, with room for `most` buffers."""
        self._count = 0
        self._table = np.zeros((4, most), np.int64)  # offsets, ends, first and last steps

    def add(self, lifetime: Lifetime) -> int:
        """Places a buffer in the smallest gap that is free during its lifetime, or behind all others.

        Returns:
            Its offset.
        """
        offsets, ends, firsts, lasts = self._table[:, : self._count]
        is_alive = (firsts <= lifetime.last) & (lasts >= lifetime.first)
        others, bounds = offsets[is_alive], np.maximum.accumulate(ends[is_alive])
        starts = np.concatenate([[0], bounds])
        gaps = others - starts[:-1]
        fits = np.flatnonzero(gaps >= lifetime.size)
        offset = int(starts[fits[gaps[fits].argmin()]] if fits.size else starts[-1])
        self.hold(Placement(lifetime, offset))
        return offset

    def hold(self, placement: Placement) -> None:
        """Adds a buffer whose place is known."""
        place = int(np.searchsorted(self._table[0, : self._count], placement.offset, "right"))
        self._table[:, place + 1 : self._count + 1] = self._table[:, place : self._count]
        lifetime = placement.lifetime
        self._table[:, place] = placement.offset, placement.end, lifetime.first, lifetime.last
        self._count += 1


def arena_size(placements: Iterable[Placement]) -> int:
    """The size in bytes that holds every placement."""
    return max((item.end for item in placements), default=0)


def lower_bound(lifetimes: Iterable[Lifetime]) -> int:
    """The maximum number of bytes alive at one step, a lower bound for every arena size."""
    change: defaultdict[int, int] = defaultdict(int)
    for item in lifetimes:
        change[item.first] += align(item.size)
        change[item.last + 1] -= align(item.size)
    worst = alive = 0
    for step in sorted(change):
        alive += change[step]
        worst = max(worst, alive)
    return worst
