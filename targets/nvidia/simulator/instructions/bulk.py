"""Bulk copies by the copy engine, linear or of boxes of tensors."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from .....runtime.cuda.errors import SimulationError
from .....support.wording import quantity
from ..addresses import CLUSTER_SHIFT
from ..builder import Builder, OperandReader, SimulatedStep
from ..frame import BLOCK, THREAD, Frame
from ..kinds import Array
from ..mbarriers import Transfer
from ..memory import GlobalMemory, MemoryAccess
from ..spaces import located, shared_offsets
from ..syntax import Address, Immediate
from ..tensor_maps import BYTES, Descriptor
from .mbarrier import barrier_places
from .memory import CACHES

PIECE = 16
"""Bytes of a chunk, the unit of swizzled copies."""

_KNOWN = (
    "async", "bulk", "tensor", "1d", "2d", "3d", "4d", "5d", "tile", "shared::cluster", "shared::cta", "global",
    "mbarrier::complete_tx::bytes", "multicast::cluster", "bulk_group", "read", *CACHES,
)  # fmt: skip


def build_bulk(builder: Builder) -> SimulatedStep:
    """Builds a bulk copy, or a commit of or wait for groups of them."""
    if builder.has("commit_group"):
        builder.known("async", "bulk", "commit_group")
        return lambda frame: frame.batch.stores.commit(frame[THREAD])
    if builder.has("wait_group"):
        builder.known("async", "bulk", "wait_group", "read")
        (pending,) = builder.operands
        if not isinstance(pending, Immediate):
            raise builder.error("requires an immediate operand")
        return lambda frame: frame.batch.stores.wait(frame[THREAD], int(pending.value))
    if builder.has("prefetch"):
        return lambda frame: None
    builder.known(*_KNOWN)
    if builder.has("multicast::cluster") and not builder.has("tensor"):
        raise builder.error("is supported for tensors only")
    if builder.has("bulk_group"):
        return _store(builder)
    if not builder.has("mbarrier::complete_tx::bytes") or not builder.has("global"):
        raise builder.error("is not supported")
    return _load(builder)


@functools.lru_cache(maxsize=256)
def _descriptor(contents: bytes) -> Descriptor:
    return Descriptor(contents)


class _Box:
    """The operand `[map, {coordinates}]`."""

    def __init__(self, builder: Builder, operand: Address) -> None:
        if operand.coordinates is None:
            raise builder.error("requires the coordinates of a box")
        self._address = builder.addresses(Address(operand.base, operand.offset))
        self._coordinates = [builder.read(item, "s32") for item in operand.coordinates.items]
        dims = next(int(item[0]) for item in builder.instruction.modifiers if re.fullmatch(r"\dd", item))
        if len(self._coordinates) != dims:
            raise builder.error(f"has {quantity(len(self._coordinates), 'coordinate')} for {dims} dimensions")

    def read(self, frame: Frame, access: MemoryAccess) -> list[tuple[Descriptor, list[int]]]:
        """Returns the map and the corner for each thread."""
        memory, offsets = located("", frame, self._address(frame), access)
        corners = [np.broadcast_to(read(frame), (frame.count,)) for read in self._coordinates]
        found = []
        for position, offset in enumerate(offsets):
            if int(offset) % 64:
                raise access.fault(position, int(offset), "the tensor map is not aligned to 64 bytes")
            descriptor = _descriptor(memory.data[int(offset) : int(offset) + BYTES].tobytes())
            if descriptor.rank != len(corners):
                raise access.fault(position, int(offset), f"the tensor map has rank {descriptor.rank}")
            found.append((descriptor, [int(corner[position]) for corner in corners]))
        return found


def _part(access: MemoryAccess, position: int, count: int) -> MemoryAccess:
    """Returns the description of one thread's accesses to several addresses."""
    return MemoryAccess(access.line, access.what, np.full(count, access.threads[position]), access.describe)


def _load(builder: Builder) -> SimulatedStep:
    operands = builder.operands
    is_tensor = builder.has("tensor")
    target, source = operands[0], operands[1]
    size = None if is_tensor else builder.read(operands[2], "u32")
    barrier = builder.addresses(operands[2 if is_tensor else 3])
    to = builder.addresses(target)
    if not isinstance(source, Address):
        raise builder.error("requires an address")
    box = _Box(builder, source) if is_tensor else None
    plain = None if is_tensor else builder.addresses(source)
    masks = builder.read(operands[3], "b16") if builder.has("multicast::cluster") else None

    def step(frame: Frame) -> None:
        access = builder.access(frame)
        starts, barriers = to(frame), barrier(frame)
        places = barrier_places(frame, "shared", barriers, access)
        frame.batch.mbarriers.demand_published(places, access)
        boxes = None if box is None else box.read(frame, access)
        sources = None if plain is None else plain(frame)
        for position in range(frame.count):
            start = int(starts[position]) & ((1 << CLUSTER_SHIFT) - 1)
            try:
                if boxes is not None:
                    inside, contents = _boxed(frame, *boxes[position], start, access, position)
                else:
                    count = int(np.broadcast_to(size(frame), (frame.count,))[position])  # type: ignore[misc]
                    inside, contents = _linear(frame, int(sources[position]), start, count, access, position)  # type: ignore[index]
            except SimulationError as error:
                raise error if error.line else SimulationError(str(error), access.line) from None
            for target_block, place in _targets(frame, position, starts, places, masks):
                _begin(frame, position, target_block, place, inside, contents, access)

    return step


def _targets(
    frame: Frame, position: int, starts: Array, places: Array, masks: OperandReader | None
) -> list[tuple[int, int]]:
    """Returns the target blocks of a thread's copy, by index in the batch, each with the index of its barrier."""
    batch = frame.batch
    own = int(frame[BLOCK][position])
    rank = int(frame["%cluster_ctarank"][position])
    if masks is None:
        named = int(starts[position]) >> CLUSTER_SHIFT
        return [(own if not named else own - rank + named - 1, int(places[position]))]
    bits = int(np.broadcast_to(masks(frame), (frame.count,))[position])
    apart = batch.shared_stride // 8
    inside = int(places[position]) % apart
    ranks = [other for other in range(16) if bits >> other & 1]
    return [(own - rank + other, (own - rank + other) * apart + inside) for other in ranks]


def _begin(
    frame: Frame, position: int, block: int, place: int, inside: Array, contents: Array, access: MemoryAccess
) -> None:
    """Starts a copy to one block."""
    batch = frame.batch
    offsets = inside + block * batch.shared_stride
    part = _part(access, position, len(offsets))
    batch.shared.mark_in_flight(offsets, PIECE, part)
    own = block == int(frame[BLOCK][position])
    races = batch.races if own else None
    if races is not None:
        races.write(offsets, PIECE, part.threads, part, engine=True)
    name = f"mbarrier {place * 8 % batch.shared_stride}"

    def land() -> None:
        batch.shared.land(offsets, PIECE, contents)
        if races is not None:
            races.release_engine(name, np.array([block]))

    batch.mbarriers.expect(Transfer(place, len(offsets) * PIECE, land))


def _boxed(
    frame: Frame, descriptor: Descriptor, corner: Sequence[int], start: int, access: MemoryAccess, position: int
) -> tuple[Array, Array]:
    """Returns the offsets of a box's chunks in the block's shared memory, and their contents."""
    addresses, held = descriptor.elements(corner)
    held = np.broadcast_to(held, addresses.shape)
    values = np.full(addresses.shape, descriptor.filler())
    wanted = addresses[held] - GlobalMemory.ORIGIN
    part = _part(access, position, len(wanted))
    if len(wanted):
        values[held] = frame.batch.memory.load(wanted, descriptor.width, part)
    pieces = descriptor.places(start).reshape(-1)[:: PIECE // descriptor.width]
    return _within(frame, pieces, access, position), values.reshape(-1).view(np.uint64)


def _linear(
    frame: Frame, source: int, start: int, count: int, access: MemoryAccess, position: int
) -> tuple[Array, Array]:
    if count % PIECE or source % PIECE or start % PIECE or not count:
        raise access.fault(position, start, f"{quantity(count, 'byte')} from {source:#x}: all must be multiples of 16")
    steps = np.arange(0, count, PIECE, dtype=np.int64)
    values = frame.batch.memory.load(source - GlobalMemory.ORIGIN + steps, PIECE, _part(access, position, len(steps)))
    return _within(frame, start + steps, access, position), values


def _within(frame: Frame, pieces: Array, access: MemoryAccess, position: int) -> Array:
    if int(pieces.max()) >= frame.batch.shared_stride:
        raise access.fault(position, int(pieces.max()), "out of bounds (shared memory)")
    return pieces


def _store(builder: Builder) -> SimulatedStep:
    is_tensor = builder.has("tensor")
    target, source, *rest = builder.operands
    if not isinstance(target, Address):
        raise builder.error("requires an address")
    box = _Box(builder, target) if is_tensor else None
    to = None if is_tensor else builder.addresses(target)
    size = None if is_tensor else builder.read(rest[0], "u32")
    from_ = builder.addresses(source)

    def step(frame: Frame) -> None:
        access = builder.access(frame)
        starts = from_(frame)
        shared = shared_offsets(frame, starts, access)
        boxes = None if box is None else box.read(frame, access)
        for position in range(frame.count):
            start = int(starts[position])
            if boxes is not None:
                descriptor, corner = boxes[position]
                targets, held = descriptor.elements(corner)
                places, width = descriptor.places(start).reshape(-1), descriptor.width
                chosen = np.broadcast_to(held, targets.shape).reshape(-1)
                targets = targets.reshape(-1)[chosen]
                places = places[chosen]
            else:
                count = int(np.broadcast_to(size(frame), (frame.count,))[position])  # type: ignore[misc]
                steps, width = np.arange(0, count, PIECE, dtype=np.int64), PIECE
                targets, places = int(to(frame)[position]) + steps, start + steps  # type: ignore[misc]
            places = places + (int(shared[position]) - start)
            _begin_store(frame, position, places, targets - GlobalMemory.ORIGIN, width, access)

    return step


def _begin_store(frame: Frame, position: int, places: Array, targets: Array, width: int, access: MemoryAccess) -> None:
    """Starts a copy out of shared memory, which is executed as late as possible."""
    batch = frame.batch
    part = _part(access, position, len(places))
    if batch.races is not None:
        batch.races.read_by_engine(places, width, part.threads, part)
    batch.shared.load(places, width, part)
    writer = np.full(len(targets), frame["#writer"][position])

    def land() -> None:
        batch.memory.store(targets, width, batch.shared.load(places, width, part), part)
        if batch.writes is not None:
            batch.writes.write(targets, width, writer, part)

    batch.stores.issue(int(frame[THREAD][position]), access.line, land)
