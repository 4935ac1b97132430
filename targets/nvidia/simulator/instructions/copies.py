"""Asynchronous copies by threads: `cp.async` and its groups. Bulk copies are in bulk.py."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, Built, SimulatedStep, builds
from ..frame import THREAD, Frame
from ..kinds import Array
from ..memory import MemoryAccess, Space
from ..spaces import located, shared_offsets
from ..syntax import Immediate
from .bulk import build_bulk
from .memory import CACHES


@builds("cp")
def _copy(builder: Builder) -> Built:
    if builder.has("bulk"):
        return build_bulk(builder)
    if builder.has("commit_group"):
        builder.known("async", "commit_group")
        return lambda frame: frame.batch.copies.commit(frame[THREAD])
    if builder.has("wait_all"):
        builder.known("async", "wait_all")
        return lambda frame: frame.batch.copies.wait_all(frame[THREAD])
    if builder.has("wait_group"):
        builder.known("async", "wait_group")
        pending = _number(builder, 0)
        return lambda frame: frame.batch.copies.wait(frame[THREAD], pending)
    return _issue(builder)


def _number(builder: Builder, position: int) -> int:
    operand = builder.operands[position]
    if not isinstance(operand, Immediate):
        raise builder.error("requires an immediate operand")
    return int(operand.value)


def _issue(builder: Builder) -> SimulatedStep:
    builder.known("async", "ca", "cg", "shared", "shared::cta", "shared::cluster", "global", *CACHES)
    to, source = builder.addresses(builder.operands[0]), builder.addresses(builder.operands[1])
    width = _number(builder, 2)
    if width not in (4, 8, 16) or (builder.has("cg") and width != 16):
        raise builder.error(f"cannot copy {width} bytes")
    further = builder.operands[3 : -1 if builder.has("L2::cache_hint") else None]
    given = builder.read(further[0], "u32") if further else None

    def step(frame: Frame) -> None:
        access, batch = builder.access(frame), frame.batch
        taken = np.full(frame.count, width) if given is None else np.broadcast_to(given(frame), (frame.count,))
        offsets = shared_offsets(frame, to(frame), access)
        rows = np.zeros((frame.count, width), np.uint8)
        for size in np.unique(taken):
            chosen = np.flatnonzero(taken == size)
            if size == 0:
                continue
            part = frame if len(chosen) == frame.count else frame.narrowed(chosen)
            inner = builder.access(part)
            memory, places = located("global", part, source(part), inner)
            if batch.observer is not None:
                batch.observer.accessed(memory, places, int(size), inner)
            rows[chosen, : int(size)] = _loaded(memory, places, int(size), width, inner)
        if batch.observer is not None:
            batch.observer.accessed(batch.shared, offsets, width, access)
        word = np.uint64 if width == 16 else np.dtype(f"u{width}")
        batch.copies.issue(frame[THREAD], offsets, width, rows.reshape(-1).view(word), access)

    return step


def _loaded(memory: Space, places: Array, size: int, width: int, access: MemoryAccess) -> Array:
    """Loads the first `size` bytes of a copy of `width` bytes; the rest of the copy is zeros."""
    if size == width:
        return memory.load(places, width, access).view(np.uint8).reshape(-1, width)
    memory.demand_aligned(places, width, access)
    columns = [memory.load(places + byte, 1, access) for byte in range(size)]
    return np.stack(columns, axis=1)
