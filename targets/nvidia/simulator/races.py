"""Detection of unordered accesses: in shared memory by vector clocks, in global memory by the last writer.

Two accesses of one byte of shared memory race if they are by different threads, at least one is a write, and no barrier
(or chain of barriers) orders them. The clock of a warp counts its synchronizations. A warp's view of the other clocks
tells which accesses of other warps are ordered before its own. Threads of one warp are ordered only by `bar.warp.sync`
and barriers of the block: lockstep execution is not guaranteed.
"""

from __future__ import annotations

import numpy as np

from ....machines.gpus import WARP
from .kinds import Array
from .memory import MemoryAccess

_MANY = 63
"""Special lane number: several lanes of the warp have read."""
_NO_WAIT, _NO_FENCE = "wgmma.wait_group", "fence.proxy.async"


class SharedRaces:
    """The accesses of shared memory in the blocks of a batch."""

    def __init__(self, blocks: int, warps: int, nbytes: int, granule: int) -> None:
        """Starts without accesses.

        Args:
            blocks: number of blocks.
            warps: number of warps per block.
            nbytes: bytes of shared memory of all blocks.
            granule: resolution in bytes; no access may be narrower.
        """
        self._shift = granule.bit_length() - 1
        self._blocks, self._warps = blocks, warps
        count = (nbytes >> self._shift) + 1
        # The last column is the engine that copies asynchronously.
        self._clock = np.ones((blocks, warps + 1), np.int32)
        self._seen = np.zeros((blocks, warps, warps + 1), np.int32)
        self._barriers: dict[str, Array] = {}
        self._writer = np.full(count, -1, np.int16)
        self._written = np.zeros(count, np.int32)
        self._reads = np.zeros((count, warps), np.int32)
        # Number of asynchronous products that may still read it; whether a thread wrote it without a later proxy fence.
        self._held = np.zeros(count, np.int16)
        self._unfenced = np.zeros(count, np.bool_)
        self._stride = nbytes // blocks

    def read(self, offsets: Array, width: int, threads: Array, access: MemoryAccess) -> None:
        """Records reads of threads, given by their indices in the batch."""
        block, warp, lane = self._parts(threads)
        for place in self._granules(offsets, width):
            self._check_writer(place, block, warp, lane, offsets, access, "a read")
            old = self._reads[place, warp]
            clock = self._clock[block, warp]
            alone = (old >> 6 != clock) | (old & 63 == lane)
            mark = (clock << 6) | np.where(alone, lane, _MANY)
            self._reads[place, warp] = mark
            other = self._reads[place, warp] != mark
            if other.any():
                self._reads[place[other], warp[other]] = (clock[other] << 6) | _MANY

    def write(self, offsets: Array, width: int, threads: Array, access: MemoryAccess, *, engine: bool = False) -> None:
        """Records writes of threads, or of the asynchronous copy engine on their behalf."""
        block, warp, lane = self._parts(threads)
        writing = np.full_like(warp, self._warps) if engine else warp
        writer = (writing << 5 | (0 if engine else lane)).astype(np.int16)
        clock = self._clock[block, writing]
        for place in self._granules(offsets, width):
            self._check_writer(place, block, warp, lane, offsets, access, "a write")
            self._check_readers(place, block, warp, lane, offsets, access)
            if self._held[place].any():
                position = int(np.argmax(self._held[place] > 0))
                raise self._race(position, offsets, access, "a write, and a product that may still read", _NO_WAIT)
            self._unfenced[place] = not engine
            self._writer[place], self._written[place] = writer, clock
            self._reads[place] = 0
            twice = self._writer[place] != writer
            if twice.any():
                raise self._race(int(np.argmax(twice)), offsets, access, "another write by the same instruction")

    def read_by_engine(self, offsets: Array, width: int, threads: Array, access: MemoryAccess) -> None:
        """Records reads by asynchronous engines on behalf of threads: products, and copies out of shared memory."""
        self.read(offsets, width, threads, access)
        for place in self._granules(offsets, width):
            if self._unfenced[place].any():
                position = int(np.argmax(self._unfenced[place]))
                by = self._name(int(self._writer[place[position]]))
                raise self._race(position, offsets, access, f"an asynchronous read, and a write by {by}", _NO_FENCE)

    def fence_proxies(self, threads: Array) -> None:
        """Makes the writes that threads see visible to later asynchronous reads."""
        written = np.flatnonzero(self._unfenced)
        if not len(written):
            return
        writer, block = self._writer[written].astype(np.int64), (written << self._shift) // self._stride
        for slot in np.unique(threads >> 5):
            own = (slot // self._blocks << 5) | (threads[threads >> 5 == slot] & (WARP - 1))
            seen = self._written[written] <= self._seen[block, slot // self._blocks, writer >> 5]
            self._unfenced[written[(block == slot % self._blocks) & (seen | np.isin(writer, own))]] = False

    def hold(self, offsets: Array, width: int) -> None:
        """Forbids writes to these bytes until `free` is called as often as `hold`."""
        for place in self._granules(offsets, width):
            np.add.at(self._held, place, 1)

    def free(self, offsets: Array, width: int) -> None:
        """The inverse of `hold`."""
        for place in self._granules(offsets, width):
            np.subtract.at(self._held, place, 1)

    def release(self, barrier: str, threads: Array) -> None:
        """Makes all previous accesses of threads visible to those that pass the barrier."""
        held = self._barrier(barrier)
        block, warp = self._warps_of(threads)
        own = self._seen[block, warp]
        own[np.arange(len(warp)), warp] = self._clock[block, warp]
        np.maximum.at(held, block, own)
        self._clock[block, warp] += 1
        self._seen[block, warp, warp] = self._clock[block, warp] - 1

    def acquire(self, barrier: str, threads: Array) -> None:
        """Makes the accesses released at the barrier visible to threads."""
        if len(threads):
            block, warp = self._warps_of(threads)
            self._seen[block, warp] = np.maximum(self._seen[block, warp], self._barrier(barrier)[block])

    def synchronise_warps(self, threads: Array) -> None:
        """Makes the previous accesses of the threads of each warp visible to each other."""
        block, warp = self._warps_of(threads)
        self._seen[block, warp, warp] = self._clock[block, warp]
        self._clock[block, warp] += 1

    def release_engine(self, barrier: str, blocks: Array) -> None:
        """Makes the writes of the engine visible to threads that pass the barrier."""
        held = self._barrier(barrier)
        blocks = np.unique(blocks)
        held[blocks, self._warps] = np.maximum(held[blocks, self._warps], self._clock[blocks, self._warps])
        self._clock[blocks, self._warps] += 1

    def _barrier(self, name: str) -> Array:
        if name not in self._barriers:
            self._barriers[name] = np.zeros((self._blocks, self._warps + 1), np.int32)
        return self._barriers[name]

    def _parts(self, threads: Array) -> tuple[Array, Array, Array]:
        slot, lane = threads >> 5, threads & (WARP - 1)
        return slot % self._blocks, slot // self._blocks, lane

    def _warps_of(self, threads: Array) -> tuple[Array, Array]:
        slots = np.unique(threads >> 5)
        return slots % self._blocks, slots // self._blocks

    def _granules(self, offsets: Array, width: int) -> list[Array]:
        first = offsets >> self._shift
        return [first + step for step in range(max(width >> self._shift, 1))]

    def _check_writer(
        self, place: Array, block: Array, warp: Array, lane: Array, offsets: Array, access: MemoryAccess, what: str
    ) -> None:
        writer = self._writer[place].astype(np.int64)
        their_warp = np.maximum(writer, 0) >> 5
        unseen = self._written[place] > self._seen[block, warp, their_warp]
        race = (writer >= 0) & unseen & (writer != (warp << 5 | lane))
        if race.any():
            position = int(np.argmax(race))
            by = self._name(int(writer[position]))
            raise self._race(position, offsets, access, f"{what}, and a write by {by}")

    def _check_readers(
        self, place: Array, block: Array, warp: Array, lane: Array, offsets: Array, access: MemoryAccess
    ) -> None:
        marks = self._reads[place]
        unseen = (marks >> 6) > self._seen[block, warp, : self._warps]
        rows = np.arange(len(warp))
        unseen[rows, warp] &= (marks[rows, warp] & 63) != lane
        if unseen.any():
            position, their_warp = divmod(int(np.argmax(unseen)), self._warps)
            mark = int(marks[position, their_warp]) & 63
            by = f"several threads of warp {their_warp}" if mark == _MANY else self._name(their_warp << 5 | mark)
            raise self._race(position, offsets, access, f"a write, and a read by {by}")

    def _name(self, writer: int) -> str:
        return "an asynchronous copy" if writer >> 5 == self._warps else f"thread {writer} of the block"

    def _race(
        self, position: int, offsets: Array, access: MemoryAccess, what: str, missing: str = "barrier"
    ) -> Exception:
        message = f"race in shared memory: {what}, with no {missing} between"
        return access.fault(position, int(offsets[position]), message)


class GlobalWrites:
    """The last writer of each part of global memory in a launch."""

    def __init__(self, nbytes: int, granule: int) -> None:
        self._shift = granule.bit_length() - 1
        self._writer = np.zeros((nbytes >> self._shift) + 1, np.int32)

    def write(self, offsets: Array, width: int, writers: Array, access: MemoryAccess) -> None:
        """Records writes of threads, which are numbered from 1 in the launch.

        Raises:
            SimulationError: a thread writes memory that another one has written in this launch.
        """
        first = offsets >> self._shift
        for step in range(max(width >> self._shift, 1)):
            place = first + step if step else first
            before = self._writer[place]
            wrong = (before != 0) & (before != writers)
            if not wrong.any():
                self._writer[place] = writers
                wrong = self._writer[place] != writers
            if wrong.any():
                position = int(np.argmax(wrong))
                raise access.fault(
                    position, int(offsets[position]), "two threads of the launch write the same byte of global memory"
                )
