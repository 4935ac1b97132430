"""The 16 named barriers of each block."""

from __future__ import annotations

import numpy as np

from ....runtime.cuda.errors import SimulationError
from .kinds import Array

NAMED = 16
"""Number of barriers of a block (PTX ISA, "barrier")."""


class Barriers:
    """Arrival counts and waiting threads of the barriers of each block."""

    def __init__(self, blocks: int, threads: int) -> None:
        self._arrived = np.zeros((blocks, NAMED), np.int64)
        # 0: no thread has arrived; -1: all threads of the block are expected.
        self._expected = np.zeros((blocks, NAMED), np.int64)
        self._live = np.full(blocks, threads, np.int64)
        self._waiting: list[list[tuple[Array, Array]]] = [[] for _ in range(NAMED)]

    def arrive(
        self, barrier: int, blocks: Array, threads: Array, expected: int | None, line: int, *, waits: bool
    ) -> tuple[Array, Array]:
        """Registers the arrival of threads at a barrier of their blocks.

        Args:
            barrier: number of the barrier.
            blocks: block of each thread.
            threads: indices of the threads in the batch.
            expected: number of threads that the barrier expects; None for all of the block.
            line: PTX line.
            waits: whether the threads wait for the others.

        Returns:
            A mask of the threads that need not wait, and the earlier threads that are released.

        Raises:
            SimulationError: the barrier's number or its number of threads is wrong.
        """
        if not 0 <= barrier < NAMED:
            raise SimulationError(f"barrier {barrier} does not exist: a block has {NAMED}", line)
        if expected is not None and (expected <= 0 or expected % 32):
            raise SimulationError(f"barrier {barrier} for {expected} threads: not a multiple of a warp", line)
        counts = np.bincount(blocks, minlength=len(self._live))
        here = counts > 0
        wanted = -1 if expected is None else expected
        other = here & (self._arrived[:, barrier] > 0) & (self._expected[:, barrier] != wanted)
        if other.any():
            known = int(self._expected[np.argmax(other), barrier])
            raise SimulationError(
                f"barrier {barrier} was used for {known if known > 0 else 'all'} threads, but is used for "
                f"{wanted if wanted > 0 else 'all'} here",
                line,
            )
        self._expected[here, barrier] = wanted
        self._arrived[:, barrier] += counts
        complete = here & (self._arrived[:, barrier] >= self._wanted(barrier))
        over = complete & (self._arrived[:, barrier] > self._wanted(barrier))
        if over.any():
            raise SimulationError(
                f"{int(self._arrived[np.argmax(over), barrier])} threads arrive at barrier {barrier}, which expects "
                f"{int(self._wanted(barrier)[np.argmax(over)])}",
                line,
            )
        if not waits:
            return np.ones(len(threads), bool), self._open(barrier, complete)
        passing = complete[blocks]
        released = self._open(barrier, complete)
        if not passing.all():
            self._waiting[barrier].append((threads[~passing], blocks[~passing]))
        return passing, released

    def leave(self, blocks: Array) -> Array:
        """Removes threads that have ended from the barriers' expectations.

        Args:
            blocks: block of each ended thread.

        Returns:
            The threads that are released.
        """
        self._live -= np.bincount(blocks, minlength=len(self._live))
        released = []
        for barrier in np.flatnonzero((self._expected == -1).any(axis=0)):
            open_ = (self._expected[:, barrier] == -1) & (self._arrived[:, barrier] >= self._live)
            released.append(self._open(int(barrier), open_ & (self._arrived[:, barrier] > 0)))
        return np.concatenate([np.zeros(0, np.int64), *released])

    def progress(self, barrier: int, block: int) -> str:
        """Returns the state of a barrier, for messages."""
        wanted = int(self._wanted(barrier)[block])
        return f"barrier {barrier}: {int(self._arrived[block, barrier])} of {wanted} threads have arrived"

    def _wanted(self, barrier: int) -> Array:
        expected = self._expected[:, barrier]
        return np.where(expected == -1, self._live, expected)

    def _open(self, barrier: int, complete: Array) -> Array:
        """Resets a barrier in the blocks where it is complete, and returns the threads that waited there."""
        self._arrived[complete, barrier] = 0
        self._expected[complete, barrier] = 0
        waiting, self._waiting[barrier] = self._waiting[barrier], []
        released = [np.zeros(0, np.int64)]
        for threads, blocks in waiting:
            done = complete[blocks]
            released.append(threads[done])
            if not done.all():
                self._waiting[barrier].append((threads[~done], blocks[~done]))
        return np.concatenate(released)
