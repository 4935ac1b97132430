"""Bulk copies out of shared memory, in groups that the issuing thread waits for; executed as late as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....runtime.cuda.errors import SimulationError
from .kinds import Array


@dataclass(frozen=True)
class _Store:
    thread: int
    group: int
    line: int
    land: Callable[[], None]


class BulkStores:
    """Pending bulk copies of all threads."""

    def __init__(self, threads: int) -> None:
        self._committed = np.zeros(threads, np.int64)
        self._stores: list[_Store] = []

    def issue(self, thread: int, line: int, land: Callable[[], None]) -> None:
        """Starts a copy of a thread; `land` executes it."""
        self._stores.append(_Store(thread, int(self._committed[thread]), line, land))

    def commit(self, threads: Array) -> None:
        """Makes the copies that threads have issued since their last commit a group."""
        self._committed[threads] += 1

    def wait(self, threads: Array, pending: int) -> None:
        """Waits until at most `pending` of the threads' latest groups are incomplete."""
        waiting = set(threads.tolist())
        kept = []
        for store in self._stores:
            if store.thread in waiting and store.group < self._committed[store.thread] - pending:
                store.land()
            else:
                kept.append(store)
        self._stores = kept

    def end(self, threads: Array) -> None:
        """Checks threads that end.

        Raises:
            SimulationError: a thread has not waited for its copies, whose source disappears with its block.
        """
        if not self._stores:
            return
        ended = set(threads.tolist())
        for store in self._stores:
            if store.thread in ended:
                raise SimulationError("a thread ends without waiting for a bulk copy that it has started", store.line)
