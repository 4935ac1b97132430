"""Scheduler of the threads of a batch, which executes threads together wherever possible.

Threads at the same program counter run as one frame. Among several program counters, the one of lowest rank runs first
(graph.py), so that diverged threads reconverge as early as possible. Waiting threads are parked until they are
released. If no thread can run while some wait, that is a deadlock; the error lists the waiting threads.
"""

from __future__ import annotations

import numpy as np

from ....runtime.cuda.errors import SimulationError
from ....support.wording import quantity
from .batch import Batch
from .frame import BLOCK, Frame, Selection, chosen, selected, size_of
from .kernel import Code
from .kinds import Array

_PATIENCE = 512
"""Maximum consecutive runs of one program counter while others could run, so that polling starves no thread."""


class Scheduler:
    """The threads of a batch, with their program counters."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        batch.scheduler = self
        self._ready: dict[int, list[Selection]] = {0: [batch.existing()]}
        self._resume = np.full(batch.count, -1, np.int64)
        self._runs_of_blocks = 0
        self._woken: list[Array] = []

    def run(self) -> None:
        """Runs all threads to their end.

        Raises:
            SimulationError: they violate the PTX ISA, or do not end.
        """
        last, repeated, limit = -1, 0, self.batch.checks.step_limit
        while self._ready:
            place = min(self._ready)
            repeated = repeated + 1 if place == last else 0
            if repeated > _PATIENCE and len(self._ready) > 1:
                place = min(other for other in self._ready if other != place)
            last = min(self._ready)
            self._run(place, selected(self._ready.pop(place)))
            self._runs_of_blocks += 1
            if self._runs_of_blocks > limit:
                raise SimulationError(f"the kernel has not ended after {limit} basic blocks")
            self._release_woken()
            if not self._ready:
                self.batch.settle()
                self._release_woken()
        waiting = np.flatnonzero(self._resume >= 0)
        if len(waiting):
            raise self._deadlock(waiting)

    def release(self, threads: Array) -> None:
        """Resumes parked threads."""
        places = self._resume[threads]
        self._resume[threads] = -1
        for place in np.unique(places):
            self._push(int(place), np.sort(threads[places == place]))

    def wake(self, threads: Array) -> None:
        """Resumes threads that are parked or about to be parked."""
        if len(threads):
            self._woken.append(threads)

    def _release_woken(self) -> None:
        if self._woken:
            woken, self._woken = np.concatenate(self._woken), []
            self.release(woken)

    def _push(self, place: int, selection: Selection) -> None:
        if size_of(selection):
            self._ready.setdefault(place, []).append(selection)

    def _run(self, place: int, selection: Selection) -> None:
        rank, part, passed = _unpacked(place)
        code, root = self.batch.kernel.codes[rank], self.batch.root
        count = size_of(selection)
        frame = root if count == root.count else Frame(self.batch, count, root, selection)
        for index in range(part, len(code.parts)):
            piece = code.parts[index]
            if piece.sync is not None and not passed:
                going = piece.sync.run(frame)
                if going is not None and not going.all():
                    self._park(code, frame, selection, going, _packed(rank, index, not piece.sync.again))
                    self._push(_packed(rank, index, True), chosen(selection, going))
                    return
            passed = False
            for step in piece.steps:
                step(frame)
        frame.store(code.live)
        self._leave(code, frame, selection)

    def _park(self, code: Code, frame: Frame, selection: Selection, going: Array, place: int) -> None:
        frame.store(code.writes)
        threads = np.arange(self.batch.count)[selection]
        self._resume[threads[~going]] = place

    def _leave(self, code: Code, frame: Frame, selection: Selection) -> None:
        for rank, mask in code.leave(frame):
            part = selection if mask is None else chosen(selection, mask)
            if rank is not None:
                self._push(_packed(rank, 0, False), part)
                continue
            self.batch.stores.end(np.arange(self.batch.count)[part])
            blocks = frame[BLOCK] if mask is None else frame[BLOCK][mask]
            self.release(self.batch.barriers.leave(blocks))
            threads = np.arange(self.batch.count)[part]
            self.release(self.batch.cluster_barriers.leave(self.batch.cluster_of(threads)))

    def _deadlock(self, waiting: Array) -> SimulationError:
        """Returns the error that lists the waiting threads and their reasons."""
        batch, lines = self.batch, []
        for place in np.unique(self._resume[waiting]):
            rank, part, _ = _unpacked(int(place))
            instruction = batch.kernel.codes[rank].parts[part].instructions[0]
            threads = waiting[self._resume[waiting] == place]
            first = int(threads[0])
            what = batch.mbarriers.reason(first)
            who = f"{quantity(len(threads), 'thread')}, {batch.describe(first)} first,"
            lines.append(f"  {who} wait at line {instruction.line}, {instruction.name}{': ' if what else ''}{what}")
        return SimulationError("deadlock: no thread can proceed\n" + "\n".join(lines))


def _packed(rank: int, part: int, passed: bool) -> int:
    """Packs a program counter into one number, ordered by rank and then by part."""
    return (rank << 32) | (part << 1) | passed


def _unpacked(place: int) -> tuple[int, int, bool]:
    return place >> 32, (place & 0xFFFFFFFF) >> 1, bool(place & 1)
