"""Matrix instructions of a warp group: `wgmma`.

The simulator reads factors and writes results immediately. A device may defer both until `wgmma.wait_group`. Until
then, factors in shared memory are protected against writes (products.py). A static analysis ensures that registers are
not accessed earlier (product_registers.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .....runtime.cuda.errors import SimulationError
from .....support.wording import quantity
from ..builder import Builder, Built, SimulatedStep, Sync, builds
from ..descriptors import PIECE, MatrixDescriptor
from ..fragments import ELEMENTS, RAW, Element, accumulator, accumulator_elements, left_factor
from ..frame import THREAD, Frame
from ..kinds import Array
from ..memory import MemoryAccess
from ..syntax import Immediate, PtxOperand, Register, Vector
from .memory import gathered

GROUP = 128
"""Threads of a warp group (PTX ISA, "Warpgroup")."""
_ROWS = 64
"""Rows of a product: M of `wgmma`."""


@dataclass(frozen=True)
class Groups:
    """Complete warp groups in a frame.

    Attributes:
        threads: for each group, the positions of its threads in the frame, in order.
        blocks: block of each group.
    """

    threads: Array
    blocks: Array

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.threads)

    def names(self, frame: Frame) -> list[int]:
        """Returns the first thread of each group."""
        return frame[THREAD][self.threads[:, 0]].tolist()


@builds("wgmma")
def _build(builder: Builder) -> Built:
    if builder.has("mma_async"):
        return _multiply(builder)
    builder.known("fence", "commit_group", "wait_group", "sync", "aligned")
    if builder.has("fence"):
        return _grouped(builder, lambda frame, groups: None)
    if builder.has("commit_group"):
        return _grouped(builder, _commit)
    (pending,) = builder.operands
    if not isinstance(pending, Immediate):
        raise builder.error("requires an immediate operand")
    count = int(pending.value)

    def wait(frame: Frame, groups: Groups) -> None:
        for group in groups.names(frame):
            frame.batch.products.wait(group, count)

    return _grouped(builder, wait)


def _commit(frame: Frame, groups: Groups) -> None:
    for group in groups.names(frame):
        frame.batch.products.commit(group)


@builds("setmaxnreg")
def _registers(builder: Builder) -> SimulatedStep:
    builder.known("inc", "dec", "sync", "aligned")
    (count,) = builder.operands
    if not isinstance(count, Immediate) or not 24 <= count.value <= 256 or int(count.value) % 8:
        raise builder.error("requires a multiple of 8 from 24 to 256")
    return lambda frame: None


def _grouped(builder: Builder, act: Callable[[Frame, Groups], None]) -> Sync:
    """Builds a step at which the four warps of a group wait for each other, then act together."""
    key = id(builder.instruction)

    def run(frame: Frame) -> Array | None:
        threads, batch = frame[THREAD], frame.batch
        blocks = len(batch.blocks)
        slots = threads >> 5
        warps, of_block = slots // blocks, slots % blocks
        names, rows = np.unique((warps >> 2) * blocks + of_block, return_inverse=True)
        table = np.full((len(names), GROUP), -1, np.int64)
        table[rows, ((warps & 3) << 5) | (threads & 31)] = np.arange(frame.count)
        whole: Array = np.all(table >= 0, axis=1)
        if whole.all():
            act(frame, Groups(table, names % blocks))
            return None
        going = whole[rows]
        if whole.any():
            inner = frame.narrowed(np.flatnonzero(going))
            place = np.cumsum(going) - 1
            act(inner, Groups(place[table[whole]], names[whole] % blocks))
            frame.absorb(inner, builder.writes)
        batch.gather(key, threads[~going], names[rows][~going], GROUP)
        return going

    return Sync(run, again=True)


def _multiply(builder: Builder) -> Sync:
    shape = next((item for item in builder.instruction.modifiers if re.fullmatch(r"m64n\d+k\d+", item)), "")
    builder.known("mma_async", "sync", "aligned", "satfinite", shape)
    columns, inner = (int(number) for number in re.findall(r"\d+", shape)[1:])
    result, left, right = builder.kinds
    a, b = ELEMENTS[left], ELEMENTS[right]
    if inner * a.bits != 256 or a.bits != b.bits or columns % 8 or not 8 <= columns <= 256:
        raise builder.error("has an invalid shape")
    target, first, second, *flags = builder.operands
    accumulators = builder.items(target)
    packed = 2 if result == "f16" else 1
    if len(accumulators) != columns // (2 * packed):
        raise builder.error(f"has {quantity(len(accumulators), 'register')} for {quantity(columns, 'column')}")
    scale = flags.pop(0)
    keeps = builder.read(scale, "pred") if isinstance(scale, Register) else _constant(scale)
    signs, transposed = _flags(builder, flags, a, in_registers=isinstance(first, Vector))
    read_a = _from_registers(builder, first, a) if isinstance(first, Vector) else None
    descriptor_a = None if read_a is not None else builder.read(first, "b64")
    descriptor_b = builder.read(second, "b64")
    readers = [builder.read(item, "b32") for item in accumulators]
    writers = [builder.write(item, "b32") for item in accumulators]

    def act(frame: Frame, groups: Groups) -> None:
        if read_a is not None:
            factor = read_a(frame, groups)
        else:
            assert descriptor_a is not None
            factor = _from_memory(builder, frame, groups, descriptor_a(frame), _ROWS, inner, a, transposed[0])
        other = _from_memory(builder, frame, groups, descriptor_b(frame), columns, inner, b, transposed[1])
        product = signs * (factor @ other.transpose(0, 2, 1))
        raw = gathered(frame, readers, np.dtype(np.uint32))[groups.threads]
        before = _matrices(raw, result)
        kept: Array = np.broadcast_to(keeps(frame), (frame.count,))[groups.threads]
        if np.any(kept != kept[:, :1]):
            raise SimulationError("threads of a warp group differ in the scale-d flag", builder.line)
        after = _registers_of(np.where(kept[:, 0].reshape(-1, 1, 1), before + product, product), result)
        rows = np.empty((frame.count, len(writers)), np.uint32)
        rows[groups.threads.reshape(-1)] = after
        for column, write in enumerate(writers):
            write(frame, rows[:, column].copy())

    return _grouped(builder, act)


def _constant(operand: PtxOperand) -> Callable[[Frame], Array]:
    value = isinstance(operand, Immediate) and operand.value != 0
    return lambda frame: np.full(frame.count, value)


def _flags(
    builder: Builder, flags: list[PtxOperand], element: Element, *, in_registers: bool
) -> tuple[int, tuple[bool, bool]]:
    """Returns the sign of the product, and whether each factor is transposed."""
    numbers = [int(flag.value) for flag in flags if isinstance(flag, Immediate)]
    wanted = 0 if element.exact else 2
    transposes = 0 if element.bits != 16 else 1 if in_registers else 2
    if len(numbers) != len(flags) or len(numbers) != wanted + transposes:
        raise builder.error(f"has {quantity(len(flags), 'number')} after its operands, expected {wanted + transposes}")
    sign = numbers[0] * numbers[1] if wanted else 1
    transposed = [False, False, *(bool(number) for number in numbers[wanted:])]
    return sign, (transposed[-2], transposed[-1])


def _from_registers(builder: Builder, operand: Vector, element: Element) -> Callable[[Frame, Groups], Array]:
    readers = [builder.read(item, "b32") for item in operand.items]
    if len(readers) != 4:
        raise builder.error(f"takes its left factor from four registers, not {len(readers)}")

    def read(frame: Frame, groups: Groups) -> Array:
        rows = gathered(frame, readers, np.dtype(np.uint32))[groups.threads]
        return left_factor(rows.reshape(-1, 32, 4), element).reshape(groups.count, _ROWS, -1)

    return read


def _from_memory(
    builder: Builder,
    frame: Frame,
    groups: Groups,
    descriptors: Array,
    outer: int,
    inner: int,
    element: Element,
    transposed: bool,
) -> Array:
    """Loads a factor given by descriptors, as groups x outer x inner."""
    bits = np.broadcast_to(descriptors, (frame.count,))[groups.threads]
    if (bits != bits[:, :1]).any():
        raise SimulationError("threads of a warp group give different descriptors", builder.line)
    batch = frame.batch
    distinct, rows = np.unique(bits[:, 0], return_inverse=True)
    places = [_places(builder, int(item), outer, inner, element, transposed) for item in distinct]
    inside = np.stack(places)[rows]
    if int(inside.max()) >= batch.shared_stride:
        raise SimulationError(f"a factor extends to shared address {int(inside.max()):#x}", builder.line)
    offsets = inside + (groups.blocks * batch.shared_stride)[:, None, None]
    flat = offsets.reshape(-1)
    first = groups.names(frame)
    who = np.repeat(first, offsets[0].size)
    access = MemoryAccess(builder.line, builder.instruction.name, who, batch.describe)
    values = batch.shared.load(flat, PIECE, access)
    batch.read_by_products(flat, PIECE, who, access)
    for group, places in zip(first, offsets, strict=True):
        batch.products.begin(group, places.reshape(-1), PIECE)
    raw = values.view(RAW[element.bits]).reshape(*offsets.shape[:2], -1)
    decoded = element.decoded(raw)
    return decoded.transpose(0, 2, 1)[:, :outer] if transposed else decoded


def _places(builder: Builder, bits: int, outer: int, inner: int, element: Element, transposed: bool) -> Array:
    descriptor = MatrixDescriptor.read(bits)
    if descriptor.base:
        raise SimulationError("descriptors with a base offset are not supported", builder.line)
    return descriptor.pieces(outer, inner, element.bits // 8, transposed=transposed)


def _matrices(raw: Array, kind: str) -> Array:
    """Converts accumulators, groups x 128 x registers, to matrices, groups x 64 x columns."""
    parts = np.ascontiguousarray(raw).reshape(-1, 32, raw.shape[-1])
    if kind == "f16":
        values = accumulator(parts.view(np.float16)).astype(np.float32)
    elif kind == "s32":
        values = accumulator(parts.view(np.int32)).astype(np.float64)
    else:
        values = accumulator(parts.view(np.float32))
    return values.reshape(len(raw), _ROWS, -1)


def _registers_of(matrices: Array, kind: str) -> Array:
    """Returns the registers of the threads, threads x registers: the inverse of `_matrices`."""
    values = accumulator_elements(matrices.reshape(-1, 16, matrices.shape[-1]))
    if kind == "s32":
        return values.astype(np.int64).astype(np.int32).view(np.uint32).reshape(-1, values.shape[-1])
    narrow = values.astype(np.float16 if kind == "f16" else np.float32)
    return np.ascontiguousarray(narrow).reshape(-1, values.shape[-1]).view(np.uint32)
