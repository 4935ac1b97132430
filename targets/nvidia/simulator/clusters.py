"""The barrier of each cluster of blocks."""

from __future__ import annotations

import numpy as np

from ....runtime.cuda.errors import SimulationError
from .kinds import Array


class ClusterBarriers:
    """Arrivals and waiting threads at the barrier of each cluster."""

    def __init__(self, clusters: int, threads: int, members: int) -> None:
        """Creates the barriers, without arrivals.

        Args:
            clusters: number of clusters.
            threads: number of threads of the batch.
            members: number of threads per cluster.
        """
        self._live = np.full(clusters, members, np.int64)
        self._arrived = np.zeros(clusters, np.int64)
        self._phase = np.zeros(clusters, np.int64)
        # Phase of each thread's last arrival; -1 once the thread has waited for that phase.
        self._awaits = np.full(threads, -1, np.int64)
        self._waiting: list[tuple[Array, Array]] = []

    def arrive(self, threads: Array, clusters: Array, line: int) -> Array:
        """Registers arrivals; returns the waiting threads that are released.

        Raises:
            SimulationError: a thread arrives twice without waiting.
        """
        if (self._awaits[threads] >= 0).any():
            raise SimulationError("a thread arrives at the cluster's barrier twice without waiting for it", line)
        self._awaits[threads] = self._phase[clusters]
        np.add.at(self._arrived, clusters, 1)
        return self._advance()

    def wait(self, threads: Array, clusters: Array, line: int) -> Array:
        """Returns a mask of the threads that need not wait; `arrive` or `leave` release the others later.

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
        """Removes ended threads from the expectations; returns the waiting threads that are released."""
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
