"""Bitwise operations, shifts, comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..builder import Builder, SimulatedStep, builds
from ..frame import Frame
from ..kinds import NUMBERS, Array, flushed
from ..syntax import WIDTHS, Immediate, Vector
from .elementwise import elementwise


@builds("and", "or", "xor")
def _bitwise(builder: Builder) -> SimulatedStep:
    builder.known()
    functions = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return elementwise(builder, functions[builder.instruction.opcode], [builder.kind] * 2)


@builds("not")
def _complement(builder: Builder) -> SimulatedStep:
    builder.known()
    return elementwise(builder, np.invert, [builder.kind])


@builds("cnot")
def _logical_not(builder: Builder) -> SimulatedStep:
    builder.known()
    return elementwise(builder, lambda a: (a == 0).astype(a.dtype), [builder.kind])


@builds("lop3")
def _three_way(builder: Builder) -> SimulatedStep:
    builder.known()
    table = builder.operands[4]
    if not isinstance(table, Immediate):
        raise builder.error("requires its table as an immediate operand")
    bits = int(table.value)

    def compute(a: Array, b: Array, c: Array, _: Array) -> Array:
        result = np.zeros(np.broadcast(a, b, c).shape, np.uint32)
        for place in range(8):
            if bits >> place & 1:
                result |= (a if place & 4 else ~a) & (b if place & 2 else ~b) & (c if place & 1 else ~c)
        return result

    return elementwise(builder, compute, ["b32"] * 4)


@builds("shl", "shr")
def _shift(builder: Builder) -> SimulatedStep:
    builder.known()
    kind = builder.kind
    number, left = NUMBERS[kind], builder.instruction.opcode == "shl"
    bits = 8 * number.itemsize
    last = number.type(bits - 1)

    def compute(values: Array, amount: Array) -> Array:
        near = np.minimum(amount, np.uint32(bits - 1)).astype(number)
        if left:
            return np.where(amount >= bits, number.type(0), values << near)
        over = values >> last if number.kind == "i" else number.type(0)
        return np.where(amount >= bits, over, values >> near)

    return elementwise(builder, compute, [kind, "u32"])


@builds("shf")
def _funnel(builder: Builder) -> SimulatedStep:
    builder.known("l", "r", "wrap", "clamp")
    left, wraps = builder.has("l"), builder.has("wrap")

    def compute(low: Array, high: Array, amount: Array) -> Array:
        count = (amount & np.uint32(31) if wraps else np.minimum(amount, np.uint32(32))).astype(np.uint64)
        pair = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        shifted = (pair << count) >> np.uint64(32) if left else pair >> count
        return (shifted & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return elementwise(builder, compute, ["u32"] * 3)


@builds("bfe")
def _extract(builder: Builder) -> SimulatedStep:
    builder.known()
    kind = builder.kind
    number = NUMBERS[kind]
    bits = 8 * number.itemsize

    def compute(values: Array, position: Array, length: Array) -> Array:
        start, count = (position & np.uint32(0xFF)).astype(np.int64), (length & np.uint32(0xFF)).astype(np.int64)
        wide = values.astype(np.uint64 if bits == 64 else np.int64)
        shifted = np.where(start < bits, wide >> np.minimum(start, bits - 1).astype(wide.dtype), wide.dtype.type(0))
        if number.kind == "i":
            end = np.minimum(start + count - 1, bits - 1)
            sign = np.where(count > 0, (wide >> end.astype(wide.dtype)) & wide.dtype.type(1), wide.dtype.type(0))
            held = np.minimum(count, np.maximum(bits - start, 0))
            mask = np.where(held >= bits, -1, (np.int64(1) << np.minimum(held, 62)) - 1).astype(wide.dtype)
            return np.where(sign != 0, (shifted & mask) | ~mask, shifted & mask).astype(number)
        mask = np.where(count >= bits, -1, (np.int64(1) << np.minimum(count, 62)) - 1).astype(np.int64)
        return (shifted & mask.astype(wide.dtype)).astype(number)

    return elementwise(builder, compute, [kind, "u32", "u32"])


@builds("bfi")
def _insert(builder: Builder) -> SimulatedStep:
    builder.known()
    kind = builder.kind
    number = NUMBERS[kind]
    bits = 8 * number.itemsize

    def compute(inserted: Array, into: Array, position: Array, length: Array) -> Array:
        start, count = (position & np.uint32(0xFF)).astype(np.uint64), (length & np.uint32(0xFF)).astype(np.uint64)
        one = np.uint64(1)
        full = np.uint64(0xFFFFFFFFFFFFFFFF)
        mask = np.where(count >= 64, full, (one << np.minimum(count, np.uint64(63))) - one)
        mask = np.where(start >= bits, np.uint64(0), mask << np.minimum(start, np.uint64(63)))
        moved = inserted.astype(np.uint64) << np.minimum(start, np.uint64(63))
        return ((into.astype(np.uint64) & ~mask) | (moved & mask)).astype(number)

    return elementwise(builder, compute, [kind, kind, "u32", "u32"])


@builds("popc", "clz", "brev", "bfind")
def _bits(builder: Builder) -> SimulatedStep:
    builder.known("shiftamt")
    kind = builder.kind
    bits = 8 * WIDTHS[kind]
    opcode = builder.instruction.opcode
    if opcode == "brev":
        return elementwise(builder, lambda a: _packed(_unpacked(a, bits)[:, ::-1], a.dtype), [kind])
    if opcode == "popc":
        return elementwise(builder, lambda a: _unpacked(a, bits).sum(axis=1).astype(np.uint32), [kind], "u32")
    if opcode == "clz":
        return elementwise(builder, lambda a: bits - _length(a, bits), [kind], "u32")

    def find(values: Array) -> Array:
        plain = np.where(values < 0, ~values, values)
        length = _length(plain, bits)
        result = np.uint32(bits) - length if builder.has("shiftamt") else length - np.uint32(1)
        return np.where(length == 0, np.uint32(0xFFFFFFFF), result)

    return elementwise(builder, find, [kind], "u32")


def _unpacked(values: Array, bits: int) -> Array:
    """Returns the bits of integers, lowest first, one row per integer."""
    octets = np.ascontiguousarray(np.atleast_1d(values)).view(np.uint8).reshape(-1, bits // 8)
    return np.unpackbits(octets, axis=1, bitorder="little")


def _packed(bits: Array, dtype: np.dtype) -> Array:
    return np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little")).view(dtype).reshape(-1)


def _length(values: Array, bits: int) -> Array:
    """Returns the number of bits up to the highest one that is set."""
    reverse = _unpacked(values, bits)[:, ::-1]
    return np.where(reverse.any(axis=1), bits - reverse.argmax(axis=1), 0).astype(np.uint32)


@builds("bmsk")
def _mask(builder: Builder) -> SimulatedStep:
    builder.known("clamp", "wrap")
    limit = (lambda a: np.minimum(a, np.uint32(32))) if builder.has("clamp") else (lambda a: a & np.uint32(31))

    def compute(start: Array, count: Array) -> Array:
        first, length = limit(start).astype(np.uint64), limit(count).astype(np.uint64)
        return ((((np.uint64(1) << length) - np.uint64(1)) << first) & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return elementwise(builder, compute, ["u32", "u32"])


@builds("prmt")
def _permute(builder: Builder) -> SimulatedStep:
    """Builds a byte permutation: each nibble of the selector picks one of eight bytes, or its sign."""
    if builder.one_of("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        raise builder.error("is supported in its general form only")
    builder.known()

    def compute(low: Array, high: Array, selector: Array) -> Array:
        pair = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
        result = np.zeros(np.broadcast(pair, selector).shape, np.uint32)
        for place in range(4):
            nibble = selector >> np.uint32(4 * place)
            byte = (pair >> ((nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8))).astype(np.uint32) & np.uint32(
                255
            )
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            result |= np.where(nibble & np.uint32(8), sign, byte) << np.uint32(8 * place)
        return result

    return elementwise(builder, compute, ["b32"] * 3)


def _comparison(name: str) -> Callable[[Array, Array], Array]:
    """Returns a comparison; those that end in "u" are true for NaN."""
    plain = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
        "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    }  # fmt: skip
    if name == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if name.endswith("u"):
        ordered = plain[name[:-1]]
        return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)
    if name == "ne":
        return _differs
    return plain[name]


def _differs(a: Array, b: Array) -> Array:
    """Returns whether values differ; false for NaN."""
    if a.dtype.kind != "f":
        return np.not_equal(a, b)
    return np.less(a, b) | np.greater(a, b)


_COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
_JOINS = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


@builds("setp")
def _set_predicate(builder: Builder) -> SimulatedStep:
    builder.known(*_COMPARISONS, *_JOINS, "ftz")
    kind, name = builder.kind, builder.one_of(*_COMPARISONS)
    compare = _flushing(builder, _comparison(name))
    join = _JOINS.get(builder.one_of(*_JOINS))
    target, left, right, *rest = builder.operands
    first, *second = target.items if isinstance(target, Vector) else (target,)
    write, other = builder.write(first, "pred"), [builder.write(item, "pred") for item in second]
    a, b = builder.read(left, kind), builder.read(right, kind)
    with_ = builder.read(rest[0], "pred") if rest else None
    packed = kind.endswith("x2")

    def step(frame: Frame) -> None:
        result = compare(a(frame), b(frame))
        if packed:
            pairs = result.reshape(-1, 2)
            write(frame, pairs[:, 0].copy())
            other[0](frame, pairs[:, 1].copy())
            return
        joined = result if with_ is None or join is None else join(result, with_(frame))
        write(frame, joined)
        for put in other:
            put(frame, ~result if with_ is None or join is None else join(~result, with_(frame)))

    return step


def _flushing(builder: Builder, compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    if not builder.has("ftz"):
        return compare
    return lambda a, b: compare(flushed(a), flushed(b))


@builds("set")
def _set(builder: Builder) -> SimulatedStep:
    builder.known(*_COMPARISONS, "ftz")
    result, kind = builder.kinds
    compare = _flushing(builder, _comparison(builder.one_of(*_COMPARISONS)))
    number = NUMBERS.get(result, np.dtype(np.float32))
    true = number.type(1) if number.kind == "f" else np.array(-1).astype(number)[()]
    return elementwise(builder, lambda a, b: np.where(compare(a, b), true, number.type(0)), [kind] * 2, result)


@builds("selp")
def _select(builder: Builder) -> SimulatedStep:
    builder.known()
    kind = _bits_of(builder.kind)
    return elementwise(builder, lambda a, b, chosen: np.where(chosen, a, b), [kind, kind, "pred"])


@builds("slct")
def _select_by_sign(builder: Builder) -> SimulatedStep:
    builder.known("ftz")
    kind, sign = builder.kinds
    plain = _bits_of(kind)
    return elementwise(builder, lambda a, b, by: np.where(by >= 0, a, b), [plain, plain, sign])


def _bits_of(kind: str) -> str:
    return kind if kind == "pred" else f"b{8 * WIDTHS[kind]}"
