"""Barriers in shared memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..builder import Builder, Built, OperandReader, Sync, builds
from ..frame import THREAD, Frame
from ..kinds import Array
from ..mbarriers import BYTES
from ..memory import MemoryAccess
from ..spaces import located, space_of
from ..syntax import Address

_MODIFIERS = (
    "shared", "shared::cta", "shared::cluster", "release", "acquire", "relaxed", "cta", "cluster", "parity",
)  # fmt: skip


@builds("mbarrier")
def _barrier(builder: Builder) -> Built:
    kinds = {
        "init": _create, "inval": _remove, "arrive": _arrive, "arrive_drop": _unsupported, "expect_tx": _announce,
        "complete_tx": _unsupported, "test_wait": _test, "try_wait": _wait, "pending_count": _unsupported,
    }  # fmt: skip
    first = builder.instruction.modifiers[0]
    builder.known(first, *_MODIFIERS, *(("expect_tx", "noComplete") if first == "arrive" else ()))
    return kinds[first](builder)


def _unsupported(builder: Builder) -> Built:
    raise builder.error("is not supported")


def barrier_places(frame: Frame, space: str, addresses: Array, access: MemoryAccess) -> Array:
    """Returns the indices of barriers at shared addresses.

    Raises:
        SimulationError: an address is not a multiple of 8 bytes in shared memory.
    """
    memory, offsets = located(space, frame, addresses, access)
    memory.demand_aligned(offsets, BYTES, access)
    return offsets // BYTES


def _counts(builder: Builder, position: int) -> OperandReader:
    """Returns a function that reads a count per thread; 1 if the operand is omitted."""
    if len(builder.operands) <= position:
        return lambda frame: np.ones(frame.count, np.int64)
    read = builder.read(builder.operands[position], "u32")
    return lambda frame: np.broadcast_to(read(frame), (frame.count,)).astype(np.int64)


def _create(builder: Builder) -> Built:
    addresses, counts, space = builder.addresses(builder.operands[0]), _counts(builder, 1), space_of(builder)

    def step(frame: Frame) -> None:
        access = builder.access(frame)
        places = barrier_places(frame, space, addresses(frame), access)
        frame.batch.barriers_made(places * BYTES, frame[THREAD], access)
        frame.batch.mbarriers.create(places, counts(frame), access)

    return step


def _remove(builder: Builder) -> Built:
    addresses, space = builder.addresses(builder.operands[0]), space_of(builder)

    def step(frame: Frame) -> None:
        access = builder.access(frame)
        places = barrier_places(frame, space, addresses(frame), access)
        frame.batch.barriers_made(places * BYTES, frame[THREAD], access)
        frame.batch.mbarriers.remove(places, access)

    return step


def _arrive(builder: Builder) -> Built:
    """Builds `mbarrier.arrive state, [a], count`; with `.expect_tx`, bytes instead of the count."""
    if builder.has("noComplete"):
        raise builder.error("is not supported")
    # Remote barriers return no state, so that operand may be missing.
    gives = not isinstance(builder.operands[0], Address)
    place = builder.operands[int(gives)]
    write = builder.write(builder.operands[0], "b64") if gives else None
    announces = builder.has("expect_tx")
    amounts = _counts(builder, 1 + int(gives))
    addresses, space = builder.addresses(place), space_of(builder)

    def step(frame: Frame) -> None:
        access, batch = builder.access(frame), frame.batch
        places = barrier_places(frame, space, addresses(frame), access)
        batch.barrier_used(places * BYTES, frame, access)
        batch.mbarriers.demand(places, access)
        if write is not None:
            write(frame, batch.mbarriers.phases(places).astype(np.uint64))
        batch.arriving(places, frame[THREAD])
        if announces:
            batch.mbarriers.announce(places, amounts(frame))
        counts = np.ones(frame.count, np.int64) if announces else amounts(frame)
        batch.mbarriers.arrive(places, counts, access, batch.scheduler)

    return step


def _announce(builder: Builder) -> Built:
    addresses, space, amounts = builder.addresses(builder.operands[0]), space_of(builder), _counts(builder, 1)

    def step(frame: Frame) -> None:
        access = builder.access(frame)
        places = barrier_places(frame, space, addresses(frame), access)
        frame.batch.mbarriers.demand(places, access)
        frame.batch.mbarriers.announce(places, amounts(frame))

    return step


def _test(builder: Builder) -> Built:
    is_over = _over(builder)
    write = builder.write(builder.operands[0], "pred")

    def step(frame: Frame) -> None:
        write(frame, is_over(frame)[0])

    return step


def _wait(builder: Builder) -> Built:
    is_over = _over(builder)
    write = builder.write(builder.operands[0], "pred")

    def run(frame: Frame) -> Array | None:
        over, places = is_over(frame)
        write(frame, over)
        if over.all():
            return None
        frame.batch.mbarriers.wait(places[~over], frame[THREAD][~over])
        return over

    return Sync(run, again=True)


def _over(builder: Builder) -> Callable[[Frame], tuple[Array, Array]]:
    """Returns a function that tests whether each thread's awaited phase is over, and returns the barriers' indices."""
    _, place, token = builder.operands[:3]
    addresses, space = builder.addresses(place), space_of(builder)
    by_parity = builder.has("parity")
    read = builder.read(token, "u32" if by_parity else "b64")

    def test(frame: Frame) -> tuple[Array, Array]:
        access, batch = builder.access(frame), frame.batch
        places = barrier_places(frame, space, addresses(frame), access)
        batch.barrier_used(places * BYTES, frame, access)
        batch.mbarriers.demand(places, access)
        wanted = np.broadcast_to(read(frame), (frame.count,)).astype(np.int64)

        def over() -> Array:
            phases = batch.mbarriers.phases(places)
            return (phases & 1) != (wanted & 1) if by_parity else phases != wanted

        done = over()
        if not done.all():
            batch.mbarriers.deliver(places[~done], batch.scheduler)
            done = over()
        batch.passing(places[done], frame[THREAD][done])
        return done, places

    return test
