"""Pending asynchronous products (`wgmma`), and the shared memory that they may still read."""

from __future__ import annotations

from .kinds import Array
from .races import SharedRaces


class Products:
    """Pending products of all warp groups; a group is identified by its first thread."""

    def __init__(self, races: SharedRaces | None) -> None:
        self._races = races
        self._open: dict[int, list[tuple[Array, int]]] = {}
        self._closed: dict[int, list[list[tuple[Array, int]]]] = {}

    def begin(self, group: int, offsets: Array, width: int) -> None:
        """Starts a product that reads `width` bytes at each of some offsets until a wait for its group."""
        if self._races is not None:
            self._races.hold(offsets, width)
            self._open.setdefault(group, []).append((offsets, width))

    def commit(self, group: int) -> None:
        """Makes the products that a warp group has started since its last commit a group of products."""
        self._closed.setdefault(group, []).append(self._open.pop(group, []))

    def wait(self, group: int, pending: int) -> None:
        """Waits until at most `pending` of a warp group's latest groups of products are incomplete."""
        closed = self._closed.get(group, [])
        done, self._closed[group] = closed[: len(closed) - pending], closed[max(len(closed) - pending, 0) :]
        if self._races is not None:
            for offsets, width in (place for products in done for place in products):
                self._races.free(offsets, width)
