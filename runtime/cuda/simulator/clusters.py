"""The barrier of each cluster of blocks."""

from __future__ import annotations

import numpy as np

from ..errors import SimulationError
from .kinds import Array


class ClusterBarriers:
    """Who has arrived at the barrier of each cluster, and who waits there."""

    def __init__(self, clusters: int, threads: int, members: int) -> None:
        """Starts with nobody.

        Args:
            clusters: how many clusters there are.
            threads: all threads of the batch.
            members: how many threads a cluster has.
        """
        self._live = np.full(clusters, members, np.int64)
        self._arrived = np.zeros(clusters, np.int64)
        self._phase = np.zeros(clusters, np.int64)
        # In which phase each thread has arrived last, and -1 once it has waited for that.
        self._awaits = np.full(threads, -1, np.int64)
        self._waiting: list[tuple[Array, Array]] = []

    def arrive(self, threads: Array, clusters: Array, line: int) -> Array:
        """Threads arrive; those waiting that need not any longer are given.

        Raises:
            SimulationError: a thread arrives twice without waiting.
        """
        if (self._awaits[threads] >= 0).any():
            raise SimulationError("a thread arrives at the cluster's barrier twice without waiting for it", line)
        self._awaits[threads] = self._phase[clusters]
        np.add.at(self._arrived, clusters, 1)
        return self._advance()

    def wait(self, threads: Array, clusters: Array, line: int) -> Array:
        """Which of some threads need not wait; the others are given by `arrive` or `leave` some time.

        Raises:
            SimulationError: a thread has not arrived.
        """
        if (self._awaits[threads] < 0).any():
            raise SimulationError("a thread waits for the cluster's barrier without having arrived", line)
        over = self._phase[clusters] > self._awaits[threads]
        self._awaits[threads[over]] = -1
        if not over.all():
            self._waiting.append((threads[~over], clusters[~over]))
        return over

    def leave(self, clusters: Array) -> Array:
        """Threads have ended, for whom nobody waits any longer."""
        np.subtract.at(self._live, clusters, 1)
        return self._advance()

    def _advance(self) -> Array:
        done = (self._arrived > 0) & (self._arrived >= self._live)
        self._phase[done] += 1
        self._arrived[done] = 0
        waiting, self._waiting = self._waiting, []
        released = [np.zeros(0, np.int64)]
        for threads, clusters in waiting:
            over = self._phase[clusters] > self._awaits[threads]
            released.append(threads[over])
            if not over.all():
                self._waiting.append((threads[~over], clusters[~over]))
        return np.concatenate(released)
