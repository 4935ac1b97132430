"""Copies by `cp.async`, whose data arrive when the issuing thread waits, and not before.

A device may complete them at any earlier time. The simulator completes them as late as possible and marks their
destination until then, so that reads without a wait are detected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kinds import Array
from .memory import MemoryAccess, Space
from .races import SharedRaces


@dataclass(frozen=True)
class _Copy:
    """Pending copies of one instruction, one per thread."""

    threads: Array
    groups: Array
    offsets: Array
    width: int
    values: Array
    access: MemoryAccess


class PendingCopies:
    """Pending copies of all threads of a batch, in groups."""

    def __init__(self, threads: int, shared: Space, races: SharedRaces | None) -> None:
        self._shared = shared
        self._races = races
        self._committed = np.zeros(threads, np.int64)
        self._landed = np.zeros(threads, np.int64)
        self._copies: list[_Copy] = []

    def issue(self, threads: Array, offsets: Array, width: int, values: Array, access: MemoryAccess) -> None:
        """Starts copies to shared memory; `values` have the layout that `Space.load` returns.

        Raises:
            SimulationError: the destination is not writable.
        """
        self._shared.mark_in_flight(offsets, width, access)
        if self._races is not None:
            self._races.write(offsets, width, threads, access)
        self._copies.append(_Copy(threads, self._committed[threads], offsets, width, values, access))

    def commit(self, threads: Array) -> None:
        """Makes the copies that threads have issued since their last commit a group."""
        self._committed[threads] += 1

    def wait(self, threads: Array, pending: int) -> None:
        """Waits until at most `pending` of the threads' latest groups are incomplete."""
        self._land(threads, self._committed[threads] - pending)

    def wait_all(self, threads: Array) -> None:
        """Waits for all copies of the threads, committed or not."""
        self._land(threads, self._committed[threads] + 1)

    def _land(self, threads: Array, below: Array) -> None:
        self._landed[threads] = np.maximum(self._landed[threads], below)
        # A copy completes when its own thread waits; other threads' copies of the same instruction may remain pending.
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
    access = MemoryAccess(copy.access.line, copy.access.what, copy.access.threads[mask], copy.access.describe)
    return _Copy(copy.threads[mask], copy.groups[mask], copy.offsets[mask], copy.width, values, access)
