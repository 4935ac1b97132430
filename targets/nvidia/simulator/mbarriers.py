"""Barriers in shared memory (`mbarrier`), and the bulk copies that report to them.

A phase of a barrier ends when all expected arrivals and all announced bytes have come. A copy completes as late as
possible: when a thread waits on its barrier, or when no thread can proceed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .kinds import Array
from .memory import MemoryAccess, Space

BYTES = 8
"""Size of a barrier (PTX ISA, "Size and alignment of mbarrier object")."""
MOST_ARRIVALS = (1 << 20) - 1
"""Maximum number of arrivals of a phase (PTX ISA, "Contents of the mbarrier object")."""


class Waker(Protocol):
    """Resumes threads that wait; see `Scheduler`."""

    def wake(self, threads: Array) -> None:
        """Resumes threads that are parked or about to be parked."""
        ...


@dataclass(frozen=True)
class Transfer:
    """A pending bulk copy.

    Attributes:
        barrier: index of the barrier that it reports to.
        nbytes: number of bytes that it reports.
        land: function that stores the data.
    """

    barrier: int
    nbytes: int
    land: Callable[[], None]


class Mbarriers:
    """All barriers in the shared memory of a batch; the index of a barrier is its offset divided by its size."""

    def __init__(self, shared: Space, stride: int) -> None:
        count = shared.size // BYTES
        self._stride = stride
        self._live = np.zeros(count, bool)
        self._expected = np.zeros(count, np.int64)
        self._pending = np.zeros(count, np.int64)
        self._bytes = np.zeros(count, np.int64)
        self._phase = np.zeros(count, np.int64)
        # The thread that initialized a barrier, until its fence makes the barrier visible to the copy engine; else -1.
        self._maker = np.full(count, -1, np.int64)
        self._waiting: dict[int, list[Array]] = {}
        self._transfers: dict[int, list[Transfer]] = {}

    def create(self, places: Array, arrivals: Array, access: MemoryAccess) -> None:
        """Initializes barriers.

        Raises:
            SimulationError: the count is invalid, or there is already a barrier.
        """
        wrong = (arrivals < 1) | (arrivals > MOST_ARRIVALS)
        self._reject(wrong, places, access, "the count of arrivals is invalid")
        self._reject(self._live[places], places, access, "there is already a barrier")
        self._live[places], self._expected[places], self._pending[places] = True, arrivals, arrivals
        self._bytes[places] = self._phase[places] = 0
        self._maker[places] = access.threads

    def publish(self, threads: Array) -> None:
        """Makes the barriers that threads have initialized visible to the copy engine."""
        self._maker[np.isin(self._maker, threads)] = -1

    def demand_published(self, places: Array, access: MemoryAccess) -> None:
        """Checks that barriers exist and are visible to the copy engine.

        Raises:
            SimulationError: a barrier does not exist or is not visible.
        """
        self.demand(places, access)
        hidden = self._maker[places] >= 0
        self._reject(hidden, places, access, "the copy engine may not see it: no fence.mbarrier_init follows")

    def remove(self, places: Array, access: MemoryAccess) -> None:
        """Invalidates barriers."""
        self.demand(places, access)
        self._live[places] = False

    def demand(self, places: Array, access: MemoryAccess) -> None:
        """Checks that barriers exist.

        Raises:
            SimulationError: a barrier does not exist.
        """
        self._reject(~self._live[places], places, access, "there is no barrier: it was not initialized")

    def phases(self, places: Array) -> Array:
        """Returns the number of completed phases of each barrier."""
        return self._phase[places]

    def announce(self, places: Array, nbytes: Array) -> None:
        """Adds to the bytes that the current phase waits for."""
        np.add.at(self._bytes, places, nbytes)

    def arrive(self, places: Array, counts: Array, access: MemoryAccess, scheduler: Waker) -> None:
        """Registers arrivals, `counts` per thread.

        Raises:
            SimulationError: more threads arrive than the current phase expects.
        """
        distinct, rows = np.unique(places, return_inverse=True)
        total = np.bincount(rows, weights=counts).astype(np.int64)
        self._pending[distinct] -= total
        over = self._pending[distinct] < 0
        if over.any():
            place = distinct[over][0]
            position = int(np.argmax(places == place))
            raise access.fault(position, int(place) * BYTES % self._stride, "more arrivals than the phase expects")
        self._advance(distinct, scheduler)

    def complete(self, transfer: Transfer, scheduler: Waker) -> None:
        """Completes a copy."""
        transfer.land()
        self._bytes[transfer.barrier] -= transfer.nbytes
        self._advance(np.array([transfer.barrier]), scheduler)

    def expect(self, transfer: Transfer) -> None:
        """Adds a pending copy."""
        self._transfers.setdefault(transfer.barrier, []).append(transfer)

    def deliver(self, places: Array, scheduler: Waker) -> None:
        """Completes the pending copies that report to the given barriers."""
        for place in np.unique(places):
            for transfer in self._transfers.pop(int(place), ()):
                self.complete(transfer, scheduler)

    def deliver_all(self, scheduler: Waker) -> None:
        """Completes all pending copies."""
        self.deliver(np.array(list(self._transfers), np.int64), scheduler)

    def wait(self, places: Array, threads: Array) -> None:
        """Makes threads wait for the end of the current phase of their barriers."""
        for place in np.unique(places):
            self._waiting.setdefault(int(place), []).append(threads[places == place])

    def reason(self, thread: int) -> str:
        """Describes the phase that a thread waits for; "" if it does not wait here."""
        for place, waiting in self._waiting.items():
            if any(thread in threads for threads in waiting):
                block, offset = divmod(place * BYTES, self._stride)
                return (
                    f"phase {int(self._phase[place])} of the barrier at shared address {offset:#x} of block {block} "
                    f"of the batch: {int(self._pending[place])} of {int(self._expected[place])} arrivals and "
                    f"{int(self._bytes[place])} bytes are missing"
                )
        return ""

    def _advance(self, places: Array, scheduler: Waker) -> None:
        """Ends the phases that are complete."""
        done = places[(self._pending[places] == 0) & (self._bytes[places] == 0)]
        self._phase[done] += 1
        self._pending[done] = self._expected[done]
        for place in done:
            for threads in self._waiting.pop(int(place), ()):
                scheduler.wake(threads)

    def _reject(self, wrong: Array, places: Array, access: MemoryAccess, reason: str) -> None:
        if wrong.any():
            position = int(np.argmax(wrong))
            raise access.fault(position, int(places[position]) * BYTES % self._stride, reason)
