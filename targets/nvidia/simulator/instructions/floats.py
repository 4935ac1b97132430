"""Floating-point arithmetic.

`.approx` instructions give results rounded correctly or as numpy rounds them. A device's results may differ from these
by a few units in the last place. A fused multiply-add of float32 rounds once, from a sum in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..builder import Builder, SimulatedStep, builds
from ..kinds import NUMBERS, Array, flushed, rounded
from .elementwise import elementwise

_ROUNDINGS = ("rn", "rz", "rm", "rp")
_MODIFIERS = (*_ROUNDINGS, "ftz", "sat", "approx", "full", "relu", "NaN", "xorsign")


def build_float(builder: Builder, function: Callable[..., Array] | None, sources: int) -> SimulatedStep:
    """Builds an arithmetic instruction with modifiers: rounding, flushing, saturation.

    Args:
        builder: the instruction.
        function: the computed function; None for the fused multiply-add.
        sources: number of source operands.
    """
    builder.known(*_MODIFIERS)
    if builder.has("xorsign"):
        raise builder.error("is not supported")
    kind, mode = builder.kind, builder.one_of(*_ROUNDINGS, default="rn")
    number = NUMBERS.get(kind, np.dtype(np.float32))
    compute = function if function is not None else _fused
    if kind in ("bf16", "bf16x2") and function is None:
        # The encoder rounds the float64 result of the fused operation once.
        compute = _fused_wide
    elif mode != "rn":
        compute = _directed(compute if function is not None else _fused_wide, number, mode)
    return elementwise(builder, _modified(builder, compute), [kind] * sources)


def _modified(builder: Builder, compute: Callable[..., Array]) -> Callable[..., Array]:
    """Returns the function with the effects of `.ftz`, `.sat` and `.relu`."""
    before = [flushed] if builder.has("ftz") else []
    after = [*before, *(step for kind, step in (("sat", _clamped), ("relu", _positive)) if builder.has(kind))]

    def modified(*values: Array) -> Array:
        for step in before:
            values = tuple(map(step, values))
        result = compute(*values)
        for step in after:
            result = step(result)
        return result

    return modified if after else compute


def _clamped(values: Array) -> Array:
    """Saturates to [0, 1]; NaN becomes 0."""
    one = values.dtype.type(1)
    return np.where(np.isnan(values), values.dtype.type(0), np.clip(values, values.dtype.type(0), one))


def _positive(values: Array) -> Array:
    return np.where(values < 0, values.dtype.type(0), values)


def _fused_wide(a: Array, b: Array, c: Array) -> Array:
    return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)


def _fused(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float64:
        return _fused_double(a, b, c)
    return _fused_wide(a, b, c).astype(a.dtype)


def _fused_double(a: Array, b: Array, c: Array) -> Array:
    """Approximates a fused multiply-add of float64 by adding back the rounding errors of product and sum."""
    product = a * b
    splitter = np.float64(134217729)
    a_high, b_high = a * splitter - (a * splitter - a), b * splitter - (b * splitter - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    return np.where(np.isfinite(total) & np.isfinite(error), total + (rest + error), total)


def _directed(compute: Callable[..., Array], number: np.dtype, mode: str) -> Callable[..., Array]:
    def run(*values: Array) -> Array:
        return rounded(compute(*(value.astype(np.float64) for value in values)), number, mode)

    return run


@builds("fma")
def _fma(builder: Builder) -> SimulatedStep:
    return build_float(builder, None, 3)


@builds("sqrt")
def _square_root(builder: Builder) -> SimulatedStep:
    return build_float(builder, np.sqrt, 1)


@builds("rcp")
def _reciprocal(builder: Builder) -> SimulatedStep:
    return build_float(builder, lambda a: a.dtype.type(1) / a, 1)


@builds("rsqrt")
def _reciprocal_root(builder: Builder) -> SimulatedStep:
    number = NUMBERS[builder.kind]
    return build_float(builder, lambda a: (1.0 / np.sqrt(a.astype(np.float64))).astype(number), 1)


@builds("ex2")
def _power(builder: Builder) -> SimulatedStep:
    return build_float(builder, np.exp2, 1)


@builds("lg2")
def _logarithm(builder: Builder) -> SimulatedStep:
    return build_float(builder, np.log2, 1)


@builds("sin")
def _sine(builder: Builder) -> SimulatedStep:
    return build_float(builder, np.sin, 1)


@builds("cos")
def _cosine(builder: Builder) -> SimulatedStep:
    return build_float(builder, np.cos, 1)


@builds("tanh")
def _hyperbolic(builder: Builder) -> SimulatedStep:
    return build_float(builder, np.tanh, 1)


@builds("copysign")
def _copy_sign(builder: Builder) -> SimulatedStep:
    builder.known()
    return elementwise(builder, lambda sign, size: np.copysign(size, sign), [builder.kind] * 2)


@builds("testp")
def _property(builder: Builder) -> SimulatedStep:
    tests = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).smallest_normal),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).smallest_normal),
    }
    builder.known(*tests)
    return elementwise(builder, tests[builder.one_of(*tests)], [builder.kind], "pred")
