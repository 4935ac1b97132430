"""Stages of shared memory between the thread that lets tiles be copied and the warp groups that multiply them.

who copies:      await empty[stage]; full[stage] <- copied boxes; next stage
who multiplies:  await full[stage]; multiply; arrive at empty[stage]; next stage
"""

from __future__ import annotations

from dataclasses import dataclass

from .bulk_copies import BARRIER_BYTES, arrive, arrive_expecting, make_barrier, wait_for
from .integers import Int


@dataclass(frozen=True)
class Ring:
    """The stages and their barriers: `full` when a stage's tiles have come, `empty` when they have been multiplied.

    Attributes:
        stages: how many.
        stage_bytes: of a stage's tiles.
        tiles_at: where in shared memory those of the first stage lie, the others behind.
        barriers_at: where in shared memory the barriers lie.
    """

    stages: int
    stage_bytes: int
    tiles_at: Int
    barriers_at: Int

    @staticmethod
    def barrier_bytes(stages: int) -> int:
        """What the barriers of so many stages take."""
        return 2 * stages * BARRIER_BYTES

    def make(self, readers: int) -> None:
        """Makes the barriers, for so many arrivals when a stage has been read."""
        for stage in range(self.stages):
            make_barrier(self._full(Int(stage)), 1)
            make_barrier(self._empty(Int(stage)), readers)

    def tiles(self, stage: Int) -> Int:
        """Where a stage's tiles lie."""
        return self.tiles_at + stage * self.stage_bytes

    def begin(self, stage: Int, parity: Int) -> Int:
        """Waits until a stage is empty; gives the barrier at which all of its bytes must come."""
        wait_for(self._empty(stage), parity ^ 1)
        full = self._full(stage)
        arrive_expecting(full, self.stage_bytes)
        return full

    def await_tiles(self, stage: Int, parity: Int) -> None:
        """Waits until a stage's tiles have come."""
        wait_for(self._full(stage), parity)

    def leave(self, stage: Int) -> None:
        """Says that a stage has been read."""
        arrive(self._empty(stage))

    def after(self, stage: Int, parity: Int) -> tuple[Int, Int]:
        """The next stage, and the parity of its phase: it flips with every turn of the ring."""
        is_last = stage.equals(self.stages - 1)
        return Int(0).where(is_last, stage + 1), (parity ^ 1).where(is_last, parity)

    def _full(self, stage: Int) -> Int:
        return self.barriers_at + stage * BARRIER_BYTES

    def _empty(self, stage: Int) -> Int:
        return self.barriers_at + (stage + self.stages) * BARRIER_BYTES
