"""Copies in bulk out of shared memory: in groups that the issuing thread waits for, and done as late as they may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import SimulationError
from .kinds import Array


@dataclass(frozen=True)
class _Store:
    thread: int
    group: int
    line: int
    land: Callable[[], None]


class BulkStores:
    """The copies of all threads that nobody has waited for."""

    def __init__(self, threads: int) -> None:
        self._committed = np.zeros(threads, np.int64)
        self._stores: list[_Store] = []

    def issue(self, thread: int, line: int, land: Callable[[], None]) -> None:
        """A thread begins a copy; `land` does it."""
        self._stores.append(_Store(thread, int(self._committed[thread]), line, land))

    def commit(self, threads: Array) -> None:
        """What threads have issued since they last did this becomes a group."""
        self._committed[threads] += 1

    def wait(self, threads: Array, pending: int) -> None:
        """Threads wait until no more than so many of their latest groups are under way."""
        waiting = set(threads.tolist())
        kept = []
        for store in self._stores:
            if store.thread in waiting and store.group < self._committed[store.thread] - pending:
                store.land()
            else:
                kept.append(store)
        self._stores = kept

    def end(self, threads: Array) -> None:
        """Threads end.

        Raises:
            SimulationError: one has not waited for its copies, whose source is gone with its block.
        """
        if not self._stores:
            return
        ended = set(threads.tolist())
        for store in self._stores:
            if store.thread in ended:
                raise SimulationError("a thread ends without waiting for a copy in bulk that it has begun", store.line)
