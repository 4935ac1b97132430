"""Barriers of blocks and clusters, and addresses of shared memory in other blocks."""

from __future__ import annotations

import numpy as np

from ..addresses import CLUSTER_SHIFT
from ..builder import Builder, OperandReader, SimulatedStep, Sync, builds
from ..frame import BLOCK, THREAD, Frame
from ..kinds import NUMBERS, Array
from ..syntax import PtxOperand
from .warps import build_warp_barrier


@builds("bar", "barrier")
def _barrier(builder: Builder) -> SimulatedStep | Sync:
    if builder.has("cluster"):
        return _cluster_barrier(builder)
    if builder.has("warp"):
        return build_warp_barrier(builder)
    builder.known("cta", "sync", "arrive", "aligned")
    waits = builder.has("sync")
    if not waits and not builder.has("arrive"):
        raise builder.error("is not a barrier that the simulator supports")
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


def _uniform(builder: Builder, operand: PtxOperand) -> OperandReader:
    return builder.read(operand, "u32")


def _cluster_barrier(builder: Builder) -> SimulatedStep | Sync:
    builder.known("cluster", "arrive", "wait", "aligned", "release", "acquire", "relaxed")
    line = builder.instruction.line

    def arrive(frame: Frame) -> None:
        batch, threads = frame.batch, frame[THREAD]
        if batch.races is not None:
            batch.races.release("cluster", threads)
        batch.scheduler.wake(batch.cluster_barriers.arrive(threads, batch.cluster_of(threads), line))

    def wait(frame: Frame) -> Array | None:
        batch, threads = frame.batch, frame[THREAD]
        over = batch.cluster_barriers.wait(threads, batch.cluster_of(threads), line)
        if batch.races is not None:
            batch.races.acquire("cluster", threads[over])
        return None if over.all() else over

    return arrive if builder.has("arrive") else Sync(wait, again=True)


@builds("mapa")
def _map_address(builder: Builder) -> SimulatedStep:
    """Builds the address of the same variable in another block of the cluster."""
    builder.known("shared::cluster")
    kind = builder.kind
    number = NUMBERS[kind].type
    low = number((1 << CLUSTER_SHIFT) - 1)
    target, source, rank = builder.operands
    write, read, ranks = builder.write(target, kind), builder.read(source, kind), builder.read(rank, "u32")

    def step(frame: Frame) -> None:
        address = np.broadcast_to(read(frame), (frame.count,))
        named = (np.broadcast_to(ranks(frame), (frame.count,)).astype(number) + number(1)) << number(CLUSTER_SHIFT)
        window = address & ~number((1 << 32) - 1) if kind == "u64" else number(0)
        write(frame, window | (address & low) | named)

    return step


@builds("getctarank")
def _rank_of_address(builder: Builder) -> SimulatedStep:
    builder.known("shared::cluster")
    kind = builder.kind
    target, source = builder.operands
    write, read = builder.write(target, "u32"), builder.read(source, kind)

    def step(frame: Frame) -> None:
        named = (np.broadcast_to(read(frame), (frame.count,)) & 0xFFFFFFFF) >> CLUSTER_SHIFT
        own = frame["%cluster_ctarank"]
        write(frame, np.where(named == 0, own, named.astype(np.uint32) - np.uint32(1)))

    return step
