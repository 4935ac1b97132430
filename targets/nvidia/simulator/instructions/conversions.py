"""Conversions between types, and moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..builder import Builder, SimulatedStep, builds
from ..frame import Frame
from ..kinds import (
    FLOATS8,
    INTEGRAL,
    NUMBERS,
    STORAGE,
    Array,
    flushed,
    round_bfloat,
    round_float8,
    round_tensor_float,
    rounded,
)
from ..syntax import WIDTHS, Vector
from .elementwise import elementwise

Convert = Callable[[Array], Array]

_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")


@builds("mov")
def _move(builder: Builder) -> SimulatedStep:
    builder.known()
    kind = builder.kind
    target, source = builder.operands
    if isinstance(source, Vector):
        return _pack(builder, kind)
    if isinstance(target, Vector):
        return _unpack(builder, kind)
    plain = kind if kind == "pred" else f"b{8 * WIDTHS[kind]}"
    # A copy, because a register's array may be modified in place later.
    return elementwise(builder, lambda a: a.copy(), [plain])


def _pack(builder: Builder, kind: str) -> SimulatedStep:
    target, source = builder.operands
    parts = builder.items(source)
    write = builder.write(target, kind)
    width = WIDTHS[kind] // len(parts)
    readers = [builder.read(item, f"b{8 * width}") for item in parts]
    storage = STORAGE[WIDTHS[kind]]

    def step(frame: Frame) -> None:
        rows = np.empty((frame.count, len(readers)), STORAGE[width])
        for place, read in enumerate(readers):
            rows[:, place] = read(frame)
        write(frame, rows.reshape(-1).view(storage))

    return step


def _unpack(builder: Builder, kind: str) -> SimulatedStep:
    target, source = builder.operands
    parts = builder.items(target)
    read = builder.read(source, kind)
    width = WIDTHS[kind] // len(parts)
    writers = [builder.write(item, f"b{8 * width}") for item in parts]

    def step(frame: Frame) -> None:
        values = read(frame)
        whole = values if values.ndim else np.full(frame.count, values)
        rows = whole.view(STORAGE[width]).reshape(frame.count, len(writers))
        for place, write in enumerate(writers):
            write(frame, rows[:, place].copy())

    return step


@builds("cvt")
def _convert(builder: Builder) -> SimulatedStep:
    if builder.has("pack"):
        return _pack_integers(builder)
    builder.known(*_ROUNDINGS, *INTEGRAL, "ftz", "sat", "satfinite", "relu")
    result, source = builder.kinds
    if result.endswith("x2"):
        return _convert_pair(builder, result, source)
    # TF32 is float32 with zeros in the last bits.
    written = "f32" if result == "tf32" else result
    return elementwise(builder, _conversion(builder, result, source), [source], written)


def _conversion(builder: Builder, result: str, source: str) -> Convert:
    """Returns the function that converts values of one kind to another."""
    flushes = builder.has("ftz")
    from_float, to_float = _is_float(source), _is_float(result)
    if not from_float and not to_float:
        return _between_integers(builder, result)
    if not to_float:
        return _to_integer(builder, result, flushes)
    mode = builder.one_of(*_ROUNDINGS, default="rn")
    number = NUMBERS.get(result, np.dtype(np.float32))
    integral = INTEGRAL.get(builder.one_of(*INTEGRAL))
    saturates, positive = builder.has("sat"), builder.has("relu")
    finite = builder.has("satfinite")

    def convert(values: Array) -> Array:
        if flushes:
            values = flushed(values)
        if integral is not None:
            values = integral(values)
        if saturates:
            values = np.where(np.isnan(values), 0, np.clip(values, 0, 1)).astype(values.dtype)
        if positive:
            values = np.where(values < 0, values.dtype.type(0), values)
        if result == "tf32":
            return round_tensor_float(values, mode)
        if result == "bf16":
            return _from_bfloat(round_bfloat(values, mode), finite)
        exact = values.astype(np.float64) if mode != "rn" and source not in ("u64", "s64") else values
        narrow = exact.astype(number) if mode == "rn" else rounded(np.asarray(exact, np.float64), number, mode)
        if finite:
            most = np.finfo(number).max
            narrow = np.where(np.isnan(narrow), narrow, np.clip(narrow, -most, most))
        return flushed(narrow) if flushes and number == np.float32 else narrow

    return convert


def _is_float(kind: str) -> bool:
    return "f" in kind or kind.startswith("e")


def _from_bfloat(bits: Array, finite: bool) -> Array:
    if finite:
        size = bits & np.uint16(0x7FFF)
        bits = np.where(size == 0x7F80, bits - np.uint16(1), bits)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _between_integers(builder: Builder, result: str) -> Convert:
    number = NUMBERS[result]
    if not builder.has("sat"):
        return lambda values: values.astype(number)
    limits = np.iinfo(number)
    return lambda values: _clipped(values, limits.min, limits.max).astype(number)


def _clipped(values: Array, low: int, high: int) -> Array:
    held = np.iinfo(values.dtype)
    return np.clip(values, max(low, held.min), min(high, held.max))


def _to_integer(builder: Builder, result: str, flushes: bool) -> Convert:
    """Returns the conversion of floats to integers: saturates out of range, and converts NaN to 0."""
    number = NUMBERS[result]
    limits = np.iinfo(number)
    integral = INTEGRAL[builder.one_of(*INTEGRAL, default="rzi")]
    over, under = np.float64(limits.max), np.float64(limits.min)

    def convert(values: Array) -> Array:
        if flushes:
            values = flushed(values)
        whole = integral(values.astype(np.float64))
        inside = (whole > under) & (whole < over)
        exact = np.where(inside, whole, 0).astype(number)
        outside = np.where(whole >= over, number.type(limits.max), number.type(limits.min))
        return np.where(inside, exact, np.where(np.isnan(whole), number.type(0), outside))

    return convert


def _convert_pair(builder: Builder, result: str, source: str) -> SimulatedStep:
    """Builds the conversion of two values into one register, the first source in the upper half."""
    target = builder.operands[0]
    if source.endswith("x2"):
        return _widen_pair(builder, result, source)
    high, low = (builder.read(operand, source) for operand in builder.operands[1:])
    kind = result.removesuffix("x2")
    write = builder.write(target, f"b{8 * WIDTHS[result]}")
    narrow = _encoded(builder, kind, source)
    storage = STORAGE[WIDTHS[result]]

    def step(frame: Frame) -> None:
        rows = np.empty((frame.count, 2), STORAGE[WIDTHS[kind]])
        rows[:, 0], rows[:, 1] = narrow(low(frame)), narrow(high(frame))
        write(frame, rows.reshape(-1).view(storage))

    return step


def _encoded(builder: Builder, kind: str, source: str) -> Convert:
    """Returns the function that converts values to the bits of a narrow float type."""
    if kind in FLOATS8:
        positive = builder.has("relu")

        def to_eight(values: Array) -> Array:
            kept = np.where(values < 0, values.dtype.type(0), values) if positive else values
            return round_float8(np.atleast_1d(kept), kind)

        return to_eight
    convert = _conversion(builder, kind, source)
    if kind == "bf16":
        return lambda values: round_bfloat(np.atleast_1d(convert(values)))
    return lambda values: convert(values).view(np.uint16)


def _widen_pair(builder: Builder, result: str, source: str) -> SimulatedStep:
    kind = source.removesuffix("x2")
    if kind not in FLOATS8 or result != "f16x2":
        raise builder.error("is not a conversion that the simulator supports")
    table = FLOATS8[kind].astype(np.float16)
    return elementwise(builder, lambda codes: table[codes.view(np.uint8)].view(np.uint32), ["b16"], "b32")


def _pack_integers(builder: Builder) -> SimulatedStep:
    """Builds `d = (c << 2n) | (sat(a) << n) | sat(b)` for results of n bits."""
    builder.known("pack", "sat")
    narrow, source, *rest = builder.kinds
    number = NUMBERS[narrow]
    limits, bits = np.iinfo(number), 8 * number.itemsize
    unsigned = STORAGE[number.itemsize]

    def compute(a: Array, b: Array, *below: Array) -> Array:
        upper, lower = (
            _clipped(values, limits.min, limits.max).astype(number).view(unsigned).astype(np.uint32)
            for values in (a, b)
        )
        packed = (upper << np.uint32(bits)) | lower
        return packed | (below[0] << np.uint32(2 * bits)) if below else packed

    return elementwise(builder, compute, [source, source, *rest], "b32")
