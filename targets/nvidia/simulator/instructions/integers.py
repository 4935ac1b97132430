"""Integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..builder import Builder, SimulatedStep, builds
from ..kinds import NUMBERS, Array
from .elementwise import elementwise
from .floats import build_float

_WIDER = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _is_float(kind: str) -> bool:
    return "f" in kind


def _high(left: Array, right: Array) -> Array:
    """Returns the upper half of a product."""
    kind = left.dtype
    if kind.itemsize < 8:
        wide = np.dtype(f"{'int' if kind.kind == 'i' else 'uint'}{16 * kind.itemsize}")
        product = left.astype(wide) * right.astype(wide)
        return (product >> wide.type(8 * kind.itemsize)).astype(kind)
    a, b = np.asarray(left).astype(np.uint64), np.asarray(right).astype(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low_low, low_high = (a & low) * (b & low), (a & low) * (b >> half)
    high_low, high_high = (a >> half) * (b & low), (a >> half) * (b >> half)
    middle = (low_low >> half) + (low_high & low) + (high_low & low)
    top = high_high + (low_high >> half) + (high_low >> half) + (middle >> half)
    if kind.kind == "i":
        top = top - np.where(left < 0, b, np.uint64(0)) - np.where(right < 0, a, np.uint64(0))
    return top.astype(kind)


def _wide(kind: str) -> Callable[[Array, Array], Array]:
    target = NUMBERS[_WIDER[kind]]
    return lambda left, right: left.astype(target) * right.astype(target)


def _magnitude(values: Array) -> Array:
    unsigned = _UNSIGNED[values.dtype.itemsize]
    bits = values.astype(unsigned)
    return np.where(values < 0, (~bits + unsigned(1)), bits)


def divided(left: Array, right: Array) -> Array:
    """Returns the quotient rounded towards zero, or all ones if the divisor is zero."""
    zero = right == 0
    if left.dtype.kind == "u":
        return np.where(zero, np.iinfo(left.dtype).max, left // np.where(zero, left.dtype.type(1), right))
    quotient = _magnitude(left) // np.where(zero, 1, _magnitude(right)).astype(_UNSIGNED[left.dtype.itemsize])
    signed = quotient.astype(left.dtype)
    return np.where(zero, left.dtype.type(-1), np.where((left < 0) != (right < 0), -signed, signed))


def remainder(left: Array, right: Array) -> Array:
    """Returns the remainder of division towards zero, or the dividend if the divisor is zero."""
    return np.where(right == 0, left, left - divided(left, right) * right)


def _saturated(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    limits = np.iinfo(np.int32)

    def compute(left: Array, right: Array) -> Array:
        exact = function(left.astype(np.int64), right.astype(np.int64))
        return np.clip(exact, limits.min, limits.max).astype(np.int32)

    return compute


@builds("add", "sub")
def _sum(builder: Builder) -> SimulatedStep:
    kind = builder.kind
    function = np.add if builder.instruction.opcode == "add" else np.subtract
    if _is_float(kind):
        return build_float(builder, function, 2)
    builder.known("sat")
    if builder.has("sat"):
        function = _saturated(function)
    return elementwise(builder, function, [kind] * 2)


@builds("mul", "mul24")
def _product(builder: Builder) -> SimulatedStep:
    kind = builder.kind
    if _is_float(kind):
        return build_float(builder, np.multiply, 2)
    builder.known("lo", "hi", "wide")
    if builder.instruction.opcode == "mul24" and not builder.has("lo"):
        raise builder.error("is supported with .lo only")
    if builder.has("wide"):
        return elementwise(builder, _wide(kind), [kind] * 2, _WIDER[kind])
    return elementwise(builder, _high if builder.has("hi") else np.multiply, [kind] * 2)


@builds("mad", "mad24")
def _multiply_add(builder: Builder) -> SimulatedStep:
    kind = builder.kind
    if _is_float(kind):
        return build_float(builder, None, 3)
    builder.known("lo", "hi", "wide")
    if builder.has("wide"):
        multiply = _wide(kind)
        return elementwise(builder, lambda a, b, c: multiply(a, b) + c, [kind, kind, _WIDER[kind]], _WIDER[kind])
    if builder.has("hi"):
        return elementwise(builder, lambda a, b, c: _high(a, b) + c, [kind] * 3)
    return elementwise(builder, lambda a, b, c: a * b + c, [kind] * 3)


@builds("div", "rem")
def _division(builder: Builder) -> SimulatedStep:
    kind = builder.kind
    if _is_float(kind):
        return build_float(builder, np.divide, 2)
    builder.known()
    return elementwise(builder, divided if builder.instruction.opcode == "div" else remainder, [kind] * 2)


@builds("abs", "neg")
def _sign(builder: Builder) -> SimulatedStep:
    kind = builder.kind
    function = np.abs if builder.instruction.opcode == "abs" else np.negative
    if _is_float(kind):
        return build_float(builder, function, 1)
    builder.known()
    return elementwise(builder, function, [kind])


@builds("min", "max")
def _extreme(builder: Builder) -> SimulatedStep:
    kind, least = builder.kind, builder.instruction.opcode == "min"
    if not _is_float(kind):
        builder.known("relu")
        function = np.minimum if least else np.maximum
        if builder.has("relu"):
            return elementwise(builder, lambda a, b: np.maximum(function(a, b), a.dtype.type(0)), [kind] * 2)
        return elementwise(builder, function, [kind] * 2)
    return build_float(builder, _float_extreme(least, builder.has("NaN")), len(builder.operands) - 1)


def _float_extreme(least: bool, keeps_nan: bool) -> Callable[..., Array]:
    """Returns the minimum or maximum of numbers; NaN loses unless it is kept, and -0 is less than +0."""
    pick = (np.minimum if least else np.maximum) if keeps_nan else (np.fmin if least else np.fmax)

    def two(left: Array, right: Array) -> Array:
        result = pick(left, right)
        negative = np.signbit(left) | np.signbit(right) if least else np.signbit(left) & np.signbit(right)
        zero = np.copysign(result.dtype.type(0), np.where(negative, result.dtype.type(-1), result.dtype.type(1)))
        return np.where((left == 0) & (right == 0), zero, result)

    def compute(*values: Array) -> Array:
        result = values[0]
        for value in values[1:]:
            result = two(result, value)
        return result

    return compute


@builds("sad")
def _difference(builder: Builder) -> SimulatedStep:
    builder.known()
    return elementwise(builder, lambda a, b, c: c + np.where(a < b, b - a, a - b), [builder.kind] * 3)


_DOT = {"u32": np.uint8, "s32": np.int8}


@builds("dp4a")
def _dot(builder: Builder) -> SimulatedStep:
    builder.known()
    left, right = builder.kinds
    result = "s32" if "s32" in (left, right) else "u32"

    def compute(a: Array, b: Array, c: Array) -> Array:
        products = _bytes(a, _DOT[left]) * _bytes(b, _DOT[right])
        return c + products.sum(axis=-1).astype(c.dtype)

    return elementwise(builder, compute, ["b32", "b32", result], result)


def _bytes(words: Array, kind: type) -> Array:
    parts = np.ascontiguousarray(np.atleast_1d(words)).view(kind).reshape(-1, 4)
    return parts.astype(np.int64)
