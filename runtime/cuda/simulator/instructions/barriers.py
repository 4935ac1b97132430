"""Barriers of a block."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Reader, Step, Sync, builds
from ..frame import BLOCK, THREAD, Frame
from ..syntax import Operand
from .warps import build_warp_barrier

Array = np.ndarray


@builds("bar", "barrier")
def _barrier(builder: Builder) -> Step | Sync:
    if builder.has("cluster"):
        return _cluster_barrier(builder)
    if builder.has("warp"):
        return build_warp_barrier(builder)
    builder.known("cta", "sync", "arrive", "aligned")
    waits = builder.has("sync")
    if not waits and not builder.has("arrive"):
        raise builder.error("is not a barrier that the simulator knows")
    number = _uniform(builder, builder.operands[0])
    expected = _uniform(builder, builder.operands[1]) if len(builder.operands) > 1 else None
    line = builder.instruction.line

    def run(frame: Frame) -> Array | None:
        numbers = np.broadcast_to(number(frame), (frame.count,))
        counts = None if expected is None else np.broadcast_to(expected(frame), (frame.count,))
        blocks, threads, batch = frame[BLOCK], frame[THREAD], frame.batch
        passing = np.ones(frame.count, bool)
        for barrier, count in _groups(numbers, counts):
            here = numbers == barrier if counts is None else (numbers == barrier) & (counts == count)
            passing[here], released = batch.barriers.arrive(
                int(barrier), blocks[here], threads[here], count, line, waits=waits
            )
            batch.scheduler.release(released)
            batch.joined(
                f"bar{barrier}", threads[here], threads[here][passing[here]] if waits else threads[:0], released
            )
        return None if passing.all() else passing

    return Sync(run, again=False)


def _groups(numbers: Array, counts: Array | None) -> list[tuple[int, int | None]]:
    if counts is None:
        return [(int(number), None) for number in np.unique(numbers)]
    pairs = np.unique(np.stack([numbers.astype(np.int64), counts.astype(np.int64)], axis=1), axis=0)
    return [(int(number), int(count)) for number, count in pairs]


def _uniform(builder: Builder, operand: Operand) -> Reader:
    return builder.read(operand, "u32")


def _cluster_barrier(builder: Builder) -> Sync:
    raise builder.error("is not simulated yet")
