"""Loads, stores, atomics, fences and address conversions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .....support.wording import quantity
from ..builder import Builder, OperandReader, SimulatedStep, Writer, builds
from ..frame import THREAD, Frame
from ..kinds import STORAGE, Array, decode, encode
from ..memory import MemoryAccess, Space
from ..spaces import SPACE_MODIFIERS, located, space_of, window_start
from ..syntax import WIDTHS, PtxOperand, Vector
from .elementwise import elementwise

_ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "mmio")
_SCOPES = ("cta", "cluster", "gpu", "sys")
CACHES = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
    "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "L2::evict_first",
    "L2::evict_last", "L2::evict_normal",
)  # fmt: skip
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_KNOWN = (*SPACE_MODIFIERS, *_ORDERS, *_SCOPES, *CACHES, *_VECTORS)
WIDEST = 16
"""Maximum bytes that a thread moves at once; wider vectors are split."""


@builds("ld", "ldu")
def _load(builder: Builder) -> SimulatedStep:
    builder.known(*_KNOWN)
    target, place = builder.operands[:2]
    kind = builder.kind
    writers = _vector(builder, target, kind)
    width = WIDTHS[kind] * len(writers)
    accessed = _accesses(builder, place, width)
    unit, piece = STORAGE[WIDTHS[kind]], min(width, WIDEST)
    ordered = builder.one_of("volatile", "relaxed", "acquire") != ""

    def step(frame: Frame) -> None:
        memory, offsets, access = accessed(frame)
        rows = []
        for start in range(0, width, piece):
            at = offsets + np.int64(start) if start else offsets
            rows.append(memory.load(at, piece, access).view(unit).reshape(frame.count, -1))
            frame.batch.watch_read(memory, at, piece, frame, access, ordered=ordered)
        columns = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)
        for column, write in enumerate(writers):
            write(frame, columns[:, column].copy())

    return step


def _accesses(builder: Builder, place: PtxOperand, width: int) -> Callable[[Frame], tuple[Space, Array, MemoryAccess]]:
    """Returns a function that finds what threads access: the memory, the offsets in it, and a description."""
    space, addresses = space_of(builder), builder.addresses(place)

    def accessed(frame: Frame) -> tuple[Space, Array, MemoryAccess]:
        access = builder.access(frame)
        memory, offsets = located(space, frame, addresses(frame), access)
        if frame.batch.observer is not None:
            frame.batch.observer.accessed(memory, offsets, width, access)
        return memory, offsets, access

    return accessed


def _vector(builder: Builder, target: object, kind: str) -> list[Writer]:
    items = target.items if isinstance(target, Vector) else (target,)
    wanted = _VECTORS.get(builder.one_of(*_VECTORS), 1)
    if len(items) != wanted:
        raise builder.error(f"has {quantity(len(items), 'operand')} for a vector of {wanted}")
    # Loads move bits; the kind determines only the extension of narrow values.
    plain = kind if kind.startswith(("s", "u")) else f"b{8 * WIDTHS[kind]}"
    return [builder.write(item, plain) for item in items]  # type: ignore[arg-type]


@builds("st")
def _store(builder: Builder) -> SimulatedStep:
    builder.known(*_KNOWN)
    place, source = builder.operands[:2]
    kind = builder.kind
    items = source.items if isinstance(source, Vector) else (source,)
    if len(items) != _VECTORS.get(builder.one_of(*_VECTORS), 1):
        raise builder.error(f"has {quantity(len(items), 'operand')} for its vector")
    readers = [builder.read(item, f"b{8 * WIDTHS[kind]}") for item in items]
    width = WIDTHS[kind] * len(readers)
    accessed = _accesses(builder, place, width)
    unit, piece = STORAGE[WIDTHS[kind]], min(width, WIDEST)
    ordered = builder.one_of("volatile", "relaxed", "release") != ""

    def step(frame: Frame) -> None:
        memory, offsets, access = accessed(frame)
        rows = gathered(frame, readers, unit)
        for start in range(0, width, piece):
            at = offsets + np.int64(start) if start else offsets
            part = rows[:, start // unit.itemsize : (start + piece) // unit.itemsize]
            memory.store(at, piece, np.ascontiguousarray(part).reshape(-1), access)
            frame.batch.watch_write(memory, at, piece, frame, access, ordered=ordered)

    return step


def gathered(frame: Frame, readers: list[OperandReader], unit: np.dtype) -> Array:
    """Returns the values of several operands, one row per thread."""
    rows = np.empty((frame.count, len(readers)), unit)
    for column, read in enumerate(readers):
        rows[:, column] = read(frame)
    return rows


@builds("cvta")
def _convert_address(builder: Builder) -> SimulatedStep:
    builder.known(*SPACE_MODIFIERS, "to")
    kind, space = builder.kind, space_of(builder)
    start = np.uint64(window_start(space, builder.instruction.line))
    if builder.has("to"):
        return elementwise(builder, lambda address: address - start, [kind])
    return elementwise(builder, lambda address: address + start, [kind])


@builds("isspacep")
def _is_in_space(builder: Builder) -> SimulatedStep:
    builder.known(*SPACE_MODIFIERS)
    space = space_of(builder)
    low = {"shared": 36, "local": 37, "param": 38, "global": 40}[space]
    high = {"shared": 37, "local": 38, "param": 40, "global": 63}[space]
    return elementwise(builder, lambda a: (a >= np.uint64(1 << low)) & (a < np.uint64(1 << high)), ["u64"], "pred")


@builds("prefetch", "prefetchu", "discard", "applypriority", "pmevent", "nanosleep", "griddepcontrol")
def _hint(builder: Builder) -> SimulatedStep:
    """Builds an instruction without effects that a program can observe."""
    return lambda frame: None


@builds("membar", "fence")
def _fence(builder: Builder) -> SimulatedStep:
    builder.known(
        "cta", "gl", "sys", "cluster", "gpu", "sc", "acq_rel", "acquire", "release", "proxy", "async", "alias",
        "async::generic", "sync_restrict::shared::cta", "sync_restrict::shared::cluster", "global", "shared::cta",
        "shared::cluster", "mbarrier_init", "async.global", "tensormap::generic", "param",
    )  # fmt: skip
    if builder.has("mbarrier_init"):
        return lambda frame: frame.batch.mbarriers.publish(frame[THREAD])
    if builder.has("proxy", "async") and not builder.has("global"):
        return lambda frame: frame.batch.fenced(frame[THREAD])
    return lambda frame: None


_ATOMICS = {
    "add": lambda old, new: old + new,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "inc": lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1)),
}


@builds("atom", "red")
def _atomic(builder: Builder) -> SimulatedStep:
    builder.known(*_KNOWN, *_ATOMICS, "cas", "noftz", "acq_rel")
    if builder.one_of(*_VECTORS):
        raise builder.error("is not supported for vectors")
    operands = builder.operands
    gives = builder.instruction.opcode == "atom"
    target, place, *values = operands if gives else (None, *operands)
    kind, space, name = builder.kind, space_of(builder), builder.one_of(*_ATOMICS, "cas")
    write = builder.write(target, kind) if target is not None else None
    addresses = builder.addresses(place)
    readers = [builder.read(value, kind) for value in values]
    width = WIDTHS[kind]
    change = _ATOMICS.get(name)

    def step(frame: Frame) -> None:
        access = builder.access(frame)
        memory, offsets = located(space, frame, addresses(frame), access)
        per_thread = decode(np.zeros(1, STORAGE[width]), kind).size
        given = [np.broadcast_to(read(frame), (frame.count * per_thread,)) for read in readers]
        given = [values.reshape(frame.count, per_thread) for values in given]
        before = np.empty(frame.count, STORAGE[width])
        for turn in turns(offsets):
            at = offsets[turn]
            part = access if len(turn) == frame.count else _part(access, turn)
            old_bits = memory.load(at, width, part)
            old = decode(old_bits, kind)
            mine = [values[turn].reshape(-1) for values in given]
            if change is not None:
                new = change(old, mine[0])
            else:
                new = np.where(old_bits == encode(mine[0], kind, STORAGE[width]), mine[1], old)
            memory.store(at, width, encode(np.ascontiguousarray(new), kind, STORAGE[width]), part)
            before[turn] = old_bits
        if write is not None:
            write(frame, decode(before, kind))

    return step


def _part(access: MemoryAccess, turn: Array) -> MemoryAccess:
    return replace(access, threads=access.threads[turn])


def turns(offsets: Array) -> list[Array]:
    """Splits positions into consecutive groups without duplicate offsets."""
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    rank = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return [order[rank == turn] for turn in range(int(rank.max(initial=-1)) + 1)]
