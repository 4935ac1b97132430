"""Ring of shared-memory stages between the thread that copies tiles and the warp groups that multiply them.

producer:  await empty[stage]; full[stage] <- copied boxes; next stage
consumer:  await full[stage]; multiply; arrive at empty[stage]; next stage
"""

from __future__ import annotations

from dataclasses import dataclass

from .bulk_copies import BARRIER_BYTES, arrive, arrive_expecting, make_barrier, wait_for
from .integers import Int


@dataclass(frozen=True)
class Ring:
    """The stages and their barriers: `full` (the stage's tiles have arrived) and `empty` (they have been read).

    Attributes:
        stages: number of stages.
        stage_bytes: bytes of the tiles of a stage.
        tiles_at: address in shared memory of the first stage's tiles; the other stages follow.
        barriers_at: address in shared memory of the barriers.
    """

    stages: int
    stage_bytes: int
    tiles_at: Int
    barriers_at: Int

    @staticmethod
    def barrier_bytes(stages: int) -> int:
        """Returns the bytes of the barriers of `stages` stages."""
        return 2 * stages * BARRIER_BYTES

    def make(self, readers: int) -> None:
        """Initializes the barriers; `readers` arrivals mark a stage as read."""
        for stage in range(self.stages):
            make_barrier(self._full(Int(stage)), 1)
            make_barrier(self._empty(Int(stage)), readers)

    def tiles(self, stage: Int) -> Int:
        """Returns the address of a stage's tiles."""
        return self.tiles_at + stage * self.stage_bytes

    def begin(self, stage: Int, parity: Int) -> Int:
        """Waits until a stage is empty; returns the barrier that must receive all of its bytes."""
        wait_for(self._empty(stage), parity ^ 1)
        full = self._full(stage)
        arrive_expecting(full, self.stage_bytes)
        return full

    def await_tiles(self, stage: Int, parity: Int) -> None:
        """Waits until a stage's tiles have arrived."""
        wait_for(self._full(stage), parity)

    def leave(self, stage: Int) -> None:
        """Marks a stage as read by the calling thread."""
        arrive(self._empty(stage))

    def after(self, stage: Int, parity: Int) -> tuple[Int, Int]:
        """Returns the next stage and the parity of its phase; the parity flips each time the ring wraps around."""
        is_last = stage.equals(self.stages - 1)
        return Int(0).where(is_last, stage + 1), (parity ^ 1).where(is_last, parity)

    def _full(self, stage: Int) -> Int:
        return self.barriers_at + stage * BARRIER_BYTES

    def _empty(self, stage: Int) -> Int:
        return self.barriers_at + (stage + self.stages) * BARRIER_BYTES
