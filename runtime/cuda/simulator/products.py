"""Asynchronous products (`wgmma`) that are under way, and the shared memory that they may still read."""

from __future__ import annotations

from .kinds import Array
from .races import SharedRaces


class Products:
    """The products of all warp groups that nobody has waited for; a group is named by its first thread."""

    def __init__(self, races: SharedRaces | None) -> None:
        self._races = races
        self._open: dict[int, list[tuple[Array, int]]] = {}
        self._closed: dict[int, list[list[tuple[Array, int]]]] = {}

    def begin(self, group: int, offsets: Array, width: int) -> None:
        """A product of a warp group reads so many bytes at each of some places, from now on until it is waited for."""
        if self._races is not None:
            self._races.hold(offsets, width)
            self._open.setdefault(group, []).append((offsets, width))

    def commit(self, group: int) -> None:
        """What a warp group has begun since it last did this is waited for together."""
        self._closed.setdefault(group, []).append(self._open.pop(group, []))

    def wait(self, group: int, pending: int) -> None:
        """A warp group waits until no more than so many of its latest groups of products are under way."""
        closed = self._closed.get(group, [])
        done, self._closed[group] = closed[: len(closed) - pending], closed[max(len(closed) - pending, 0) :]
        if self._races is not None:
            for offsets, width in (place for products in done for place in products):
                self._races.free(offsets, width)
