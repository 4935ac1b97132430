"""Copies by `cp.async`: their data arrive when the thread that issued them waits, and not before.

A device may bring them at any time between. Here they come as late as they may, and their destination is marked until
then, so that reading without waiting is found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kinds import Array
from .memory import Access, Space
from .races import SharedRaces


@dataclass(frozen=True)
class _Copy:
    """One instruction's copies that have not arrived: one per thread."""

    threads: Array
    groups: Array
    offsets: Array
    width: int
    values: Array
    access: Access


class AsyncCopies:
    """The copies under way of all threads of a batch, in groups."""

    def __init__(self, threads: int, shared: Space, races: SharedRaces | None) -> None:
        self._shared = shared
        self._races = races
        self._committed = np.zeros(threads, np.int64)
        self._landed = np.zeros(threads, np.int64)
        self._copies: list[_Copy] = []

    def issue(self, threads: Array, offsets: Array, width: int, values: Array, access: Access) -> None:
        """Threads begin copies to shared memory; `values` are laid out as `Space.load` gives them.

        Raises:
            SimulationError: the destination may not be written.
        """
        self._shared.mark_in_flight(offsets, width, access)
        if self._races is not None:
            self._races.write(offsets, width, threads, access)
        self._copies.append(_Copy(threads, self._committed[threads], offsets, width, values, access))

    def commit(self, threads: Array) -> None:
        """What threads have issued since they last did this becomes a group."""
        self._committed[threads] += 1

    def wait(self, threads: Array, pending: int) -> None:
        """Threads wait until no more than so many of their latest groups are under way."""
        self._land(threads, self._committed[threads] - pending)

    def wait_all(self, threads: Array) -> None:
        """Threads wait for all of their copies, in groups or not."""
        self._land(threads, self._committed[threads] + 1)

    def _land(self, threads: Array, below: Array) -> None:
        self._landed[threads] = np.maximum(self._landed[threads], below)
        # A copy lands when its own thread waits; others of the same instruction may be waiting still.
        waiting = np.zeros(len(self._landed), bool)
        waiting[threads] = True
        kept = []
        for copy in self._copies:
            ready = waiting[copy.threads] & (copy.groups < self._landed[copy.threads])
            if not ready.any():
                kept.append(copy)
                continue
            if ready.all():
                self._arrive(copy)
                continue
            self._arrive(_part(copy, ready))
            kept.append(_part(copy, ~ready))
        self._copies = kept

    def _arrive(self, copy: _Copy) -> None:
        self._shared.land(copy.offsets, copy.width, copy.values)
        if self._races is not None:
            self._races.write(copy.offsets, copy.width, copy.threads, copy.access)


def _part(copy: _Copy, mask: Array) -> _Copy:
    values = copy.values.reshape(len(copy.threads), -1)[mask].reshape(-1)
    access = Access(copy.access.line, copy.access.what, copy.access.threads[mask], copy.access.describe)
    return _Copy(copy.threads[mask], copy.groups[mask], copy.offsets[mask], copy.width, values, access)
