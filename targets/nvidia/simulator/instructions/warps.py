"""Warp-level instructions: exchanges, votes, reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .....machines.gpus import WARP
from .....runtime.cuda.errors import SimulationError
from ..builder import Builder, OperandReader, SimulatedStep, Sync, builds
from ..frame import THREAD, Frame
from ..kinds import NUMBERS, Array
from ..syntax import Vector

FULL = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class Warps:
    """Threads of a frame by warp and lane.

    Attributes:
        rows: warp of each thread, numbered within the frame.
        lanes: lane of each thread.
        count: number of warps.
        whole: whether the threads are all lanes of their warps, in order.
    """

    rows: Array
    lanes: Array
    count: int
    whole: bool

    def spread(self, values: Array, empty: object = 0) -> Array:
        """Arranges values of threads in rows of 32, one per warp."""
        if self.whole:
            return values.reshape(self.count, WARP)
        table = np.full((self.count, WARP), empty, values.dtype)
        table[self.rows, self.lanes] = values
        return table

    def collect(self, table: Array) -> Array:
        """Returns the threads' own values from such rows."""
        return table.reshape(-1) if self.whole else table[self.rows, self.lanes]


def warps_of(frame: Frame) -> Warps:
    """Returns the warps of a frame's threads."""
    threads = frame[THREAD]
    lanes = threads & (WARP - 1)
    aligned = frame.count % WARP == 0 and int(threads[0]) % WARP == 0
    if aligned and int(threads[-1]) - int(threads[0]) + 1 == frame.count:
        return Warps(np.arange(frame.count) // WARP, lanes, frame.count // WARP, True)
    slots, rows = np.unique(threads // WARP, return_inverse=True)
    return Warps(rows, lanes, len(slots), frame.count == len(slots) * WARP)


Exchange = Callable[[Frame, Warps], None]


def together(builder: Builder, exchange: Exchange, mask: OperandReader | None) -> Sync:
    """Builds a step at which the threads of a mask wait for each other, then act together.

    Args:
        builder: the instruction.
        exchange: the joint action.
        mask: the participating lanes; None for all 32.
    """
    key = builder.instruction
    line = key.line

    def run(frame: Frame) -> Array | None:
        warps = warps_of(frame)
        if mask is None and warps.whole:
            exchange(frame, warps)
            return None
        masks = np.broadcast_to(FULL if mask is None else mask(frame), (frame.count,))
        if warps.whole and (masks == FULL).all():
            exchange(frame, warps)
            return None
        bits = np.uint32(1) << warps.lanes.astype(np.uint32)
        if (masks & bits == 0).any():
            raise SimulationError(f"{key.name} is executed by a thread whose lane is not in its mask", line)
        present = np.bitwise_or.reduce(warps.spread(bits), axis=1)
        needed = masks & frame.batch.existing_lanes(frame[THREAD])
        complete = needed & ~present[warps.rows] == 0
        if complete.all():
            exchange(frame, warps)
            return None
        if complete.any():
            inner = frame.narrowed(np.flatnonzero(complete))
            exchange(inner, warps_of(inner))
            frame.absorb(inner, builder.writes)
        frame.batch.meet(id(key), frame[THREAD][~complete], needed[~complete])
        return complete

    return Sync(run, again=True)


def build_warp_barrier(builder: Builder) -> Sync:
    """Builds `bar.warp.sync mask`."""
    builder.known("warp", "sync")
    mask = builder.read(builder.operands[0], "b32")

    def run(frame: Frame, warps: Warps) -> None:
        frame.batch.synchronised(frame[THREAD])

    return together(builder, run, mask)


@builds("shfl")
def _shuffle(builder: Builder) -> Sync:
    builder.known("sync", "up", "down", "bfly", "idx")
    mode = builder.one_of("up", "down", "bfly", "idx")
    target, source, lane, clamp, mask = builder.operands
    first, *second = target.items if isinstance(target, Vector) else (target,)
    write, inside = builder.write(first, "b32"), [builder.write(item, "pred") for item in second]
    value, by, limits = builder.read(source, "b32"), builder.read(lane, "u32"), builder.read(clamp, "u32")
    line = builder.instruction.line

    def run(frame: Frame, warps: Warps) -> None:
        own = warps.lanes.astype(np.int64)
        amount = np.broadcast_to(by(frame), (frame.count,)).astype(np.int64) & 31
        limit = np.broadcast_to(limits(frame), (frame.count,)).astype(np.int64)
        segment, most = (limit >> 8) & 31, limit & 31
        last = (own & segment) | (most & ~segment)
        wanted = {
            "up": lambda: own - amount,
            "down": lambda: own + amount,
            "bfly": lambda: own ^ amount,
            "idx": lambda: (own & segment) | (amount & ~segment),
        }[mode]()
        valid = wanted >= last if mode == "up" else wanted <= last
        source_lane = np.where(valid, wanted, own)
        values = np.broadcast_to(value(frame), (frame.count,))
        table = warps.spread(values)
        if not warps.whole:
            there = warps.spread(np.ones(frame.count, bool), False)
            if not there[warps.rows, source_lane].all():
                raise SimulationError(f"{builder.instruction.name} reads from a lane that does not participate", line)
        write(frame, table[warps.rows, source_lane])
        for put in inside:
            put(frame, valid)

    return together(builder, run, builder.read(mask, "b32"))


@builds("vote")
def _vote(builder: Builder) -> Sync:
    builder.known("sync", "all", "any", "uni", "ballot")
    mode = builder.one_of("all", "any", "uni", "ballot")
    target, source, mask = builder.operands
    write = builder.write(target, "b32" if mode == "ballot" else "pred")
    predicate = builder.read(source, "pred")

    def run(frame: Frame, warps: Warps) -> None:
        votes = np.broadcast_to(predicate(frame), (frame.count,))
        bits = warps.spread(np.where(votes, np.uint32(1) << warps.lanes.astype(np.uint32), np.uint32(0)))
        yes = np.bitwise_or.reduce(bits, axis=1)
        taking = warps.spread(np.uint32(1) << warps.lanes.astype(np.uint32))
        present = np.bitwise_or.reduce(taking, axis=1)
        result = {
            "ballot": lambda: yes,
            "all": lambda: yes == present,
            "any": lambda: yes != 0,
            "uni": lambda: (yes == present) | (yes == 0),
        }[mode]()
        write(frame, result[warps.rows])

    return together(builder, run, builder.read(mask, "b32"))


@builds("activemask")
def _active(builder: Builder) -> SimulatedStep:
    write = builder.write(builder.operands[0], "b32")

    def step(frame: Frame) -> None:
        warps = warps_of(frame)
        bits = warps.spread(np.uint32(1) << warps.lanes.astype(np.uint32))
        write(frame, np.bitwise_or.reduce(bits, axis=1)[warps.rows])

    return step


@builds("redux")
def _reduce(builder: Builder) -> Sync:
    functions = {
        "add": (np.add, 0), "min": (np.minimum, None), "max": (np.maximum, None), "and": (np.bitwise_and, -1),
        "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
    }  # fmt: skip
    builder.known("sync", *functions)
    kind, name = builder.kind, builder.one_of(*functions)
    number = NUMBERS[kind]
    function, neutral = functions[name]
    if neutral is None:
        if number.kind == "f":
            raise builder.error("is not supported for floats")
        neutral = np.iinfo(number).max if name == "min" else np.iinfo(number).min
    target, source, mask = builder.operands
    write, value = builder.write(target, kind), builder.read(source, kind)
    start = np.array(neutral).astype(number)[()]

    def run(frame: Frame, warps: Warps) -> None:
        table = warps.spread(np.broadcast_to(value(frame), (frame.count,)), start)
        write(frame, function.reduce(table, axis=1, dtype=number)[warps.rows])

    return together(builder, run, builder.read(mask, "b32"))


@builds("match")
def _match(builder: Builder) -> Sync:
    builder.known("sync", "any", "all")
    kind, every = builder.kind, builder.has("all")
    target, source, mask = builder.operands
    first, *second = target.items if isinstance(target, Vector) else (target,)
    write, same = builder.write(first, "b32"), [builder.write(item, "pred") for item in second]
    value = builder.read(source, kind)

    def run(frame: Frame, warps: Warps) -> None:
        values = np.broadcast_to(value(frame), (frame.count,))
        table = warps.spread(values)
        there = warps.spread(np.ones(frame.count, bool), False)
        equal = (table[warps.rows] == values[:, None]) & there[warps.rows]
        bits = (equal * (np.uint64(1) << np.arange(WARP, dtype=np.uint64))).sum(axis=1).astype(np.uint32)
        if every:
            whole = equal.sum(axis=1) == there[warps.rows].sum(axis=1)
            bits = np.where(whole, bits, np.uint32(0))
            for put in same:
                put(frame, whole)
        write(frame, bits)

    return together(builder, run, builder.read(mask, "b32"))


@builds("elect")
def _elect(builder: Builder) -> Sync:
    builder.known("sync")
    target, mask = builder.operands
    first, *second = builder.items(target)
    write = builder.write(first, "b32")
    chosen = [builder.write(item, "pred") for item in second]
    masks = builder.read(mask, "b32")

    def run(frame: Frame, warps: Warps) -> None:
        members = np.broadcast_to(masks(frame), (frame.count,))
        lowest = members & (~members + np.uint32(1))
        leader = np.log2(lowest.astype(np.float64)).astype(np.uint32)
        write(frame, leader)
        for put in chosen:
            put(frame, leader == warps.lanes)

    return together(builder, run, masks)
