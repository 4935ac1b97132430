"""Matrix instructions of a warp: `mma.sync`, `ldmatrix`, `stmatrix`, `movmatrix`."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .....support.wording import quantity
from ..builder import Builder, Sync, builds
from ..fragments import (
    ELEMENTS,
    accumulator,
    accumulator_elements,
    left_factor,
    right_factor,
    square,
    square_registers,
)
from ..frame import Frame
from ..kinds import Array
from ..memory import MemoryAccess, Space
from ..spaces import located, space_of
from ..syntax import PtxOperand
from .memory import gathered
from .warps import Warps, together

_LAYOUTS = ("row", "col")


def table_of(builder: Builder, operand: PtxOperand) -> Callable[[Frame, Warps], Array]:
    """Returns a function that reads the registers of a vector as warps x 32 x registers."""
    readers = [builder.read(item, "b32") for item in builder.items(operand)]
    return lambda frame, warps: gathered(frame, readers, np.dtype(np.uint32)).reshape(warps.count, 32, -1)


def accumulators_of(builder: Builder, operand: PtxOperand, kind: str) -> Callable[[Frame, Warps], Array]:
    """Returns a function that reads accumulators as matrices of float32, or of float64 for s32."""
    table = table_of(builder, operand)

    def read(frame: Frame, warps: Warps) -> Array:
        raw = table(frame, warps)
        if kind == "f16":
            return accumulator(np.ascontiguousarray(raw).view(np.float16)).astype(np.float32)
        if kind == "s32":
            return accumulator(raw.view(np.int32)).astype(np.float64)
        return accumulator(raw.view(np.float32))

    return read


def stored_accumulators(builder: Builder, operand: PtxOperand, kind: str) -> Callable[[Frame, Array], None]:
    """Returns a function that writes matrices to accumulators."""
    writers = [builder.write(item, "b32") for item in builder.items(operand)]

    def write(frame: Frame, matrices: Array) -> None:
        values = accumulator_elements(matrices)
        if kind == "f16":
            raw = np.ascontiguousarray(values.astype(np.float16)).view(np.uint32)
        elif kind == "s32":
            raw = values.astype(np.int64).astype(np.int32).view(np.uint32)
        else:
            raw = np.ascontiguousarray(values.astype(np.float32)).view(np.uint32)
        rows = raw.reshape(frame.count, -1)
        for column, put in enumerate(writers):
            put(frame, rows[:, column].copy())

    return write


def saturated(builder: Builder, matrices: Array) -> Array:
    """Applies `.satfinite` to integers, if the instruction has it."""
    limits = np.iinfo(np.int32)
    return np.clip(matrices, limits.min, limits.max) if builder.has("satfinite") else matrices


@builds("mma")
def _multiply(builder: Builder) -> Sync:
    shape = next((item for item in builder.instruction.modifiers if re.fullmatch(r"m\d+n\d+k\d+", item)), "")
    builder.known("sync", "aligned", "row", "col", "satfinite", shape)
    rows, columns, inner = (int(number) for number in re.findall(r"\d+", shape))
    result, left, right, start = builder.kinds
    a, b = ELEMENTS[left], ELEMENTS[right]
    layouts = [item for item in builder.instruction.modifiers if item in _LAYOUTS]
    if (rows, columns) != (16, 8) or layouts != ["row", "col"] or a.bits != b.bits or inner % (4 * a.per_register):
        raise builder.error("has an unsupported shape")
    counts = [len(builder.items(operand)) for operand in builder.operands]
    packed = 2 if result == "f16" else 1
    if counts != [4 // packed, inner // (2 * a.per_register), inner // (4 * b.per_register), 4 // packed]:
        raise builder.error(f"has operands with wrong numbers of registers: {counts}")
    target, *sources = builder.operands
    read_a, read_b = table_of(builder, sources[0]), table_of(builder, sources[1])
    read_c, write = accumulators_of(builder, sources[2], start), stored_accumulators(builder, target, result)

    def run(frame: Frame, warps: Warps) -> None:
        product = left_factor(read_a(frame, warps), a) @ right_factor(read_b(frame, warps), b)
        write(frame, saturated(builder, product + read_c(frame, warps)))

    return together(builder, run, None)


@builds("ldmatrix", "stmatrix")
def _matrix_move(builder: Builder) -> Sync:
    counts = {"x1": 1, "x2": 2, "x4": 4}
    loads = builder.instruction.opcode == "ldmatrix"
    builder.known("sync", "aligned", "m8n8", "trans", "shared", "shared::cta", *counts)
    if builder.kind != "b16":
        raise builder.error("is supported for elements of 16 bits only")
    count, transposed = counts[builder.one_of(*counts)], builder.has("trans")
    vector, place = builder.operands if loads else builder.operands[::-1]
    items = builder.items(vector)
    if len(items) != count:
        raise builder.error(f"has {quantity(len(items), 'register')} for {quantity(count, 'matrix')}")
    addresses, space = builder.addresses(place), space_of(builder)
    writers = [builder.write(item, "b32") for item in items] if loads else []
    readers = [] if loads else [builder.read(item, "b32") for item in items]

    def rows(frame: Frame, warps: Warps) -> tuple[Frame, Array]:
        """Returns the lanes that give the addresses of rows, and the addresses."""
        taking = frame.narrowed(np.flatnonzero(warps.lanes < 8 * count)) if count < 4 else frame
        return taking, addresses(taking)

    def load(frame: Frame, warps: Warps) -> None:
        taking, places = rows(frame, warps)
        access = builder.access(taking)
        memory, offsets = located(space, taking, places, access)
        _observe(frame, memory, offsets, access)
        values = memory.load(offsets, 16, access)
        frame.batch.watch_read(memory, offsets, 16, taking, access, ordered=False)
        matrices = values.view(np.uint16).reshape(warps.count, count, 8, 8)
        for number, put in enumerate(writers):
            matrix = matrices[:, number]
            put(frame, square_registers(matrix.transpose(0, 2, 1) if transposed else matrix).reshape(-1))

    def store(frame: Frame, warps: Warps) -> None:
        taking, places = rows(frame, warps)
        access = builder.access(taking)
        memory, offsets = located(space, taking, places, access)
        _observe(frame, memory, offsets, access)
        matrices = np.empty((warps.count, count, 8, 8), np.uint16)
        for number, read in enumerate(readers):
            matrix = square(np.broadcast_to(read(frame), (frame.count,)).reshape(warps.count, 32))
            matrices[:, number] = matrix.transpose(0, 2, 1) if transposed else matrix
        memory.store(offsets, 16, matrices.reshape(-1), access)
        frame.batch.watch_write(memory, offsets, 16, taking, access, ordered=False)

    return together(builder, load if loads else store, None)


def _observe(frame: Frame, memory: Space, offsets: Array, access: MemoryAccess) -> None:
    if frame.batch.observer is not None:
        frame.batch.observer.accessed(memory, offsets, 16, access)


@builds("movmatrix")
def _transpose(builder: Builder) -> Sync:
    builder.known("sync", "aligned", "m8n8", "trans")
    target, source = builder.operands
    write, read = builder.write(target, "b32"), builder.read(source, "b32")

    def run(frame: Frame, warps: Warps) -> None:
        matrix = square(read(frame).reshape(warps.count, 32)).transpose(0, 2, 1)
        write(frame, square_registers(matrix).reshape(-1))

    return together(builder, run, None)
