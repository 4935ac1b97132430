"""The types of PTX in numpy: conversion between register bits and values.

Registers hold unsigned integers. f16 is computed as float16. bf16, which numpy lacks, is computed as float32 and
rounded when written. Packed pairs are computed as twice as many elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
"""A numpy array; with the precise type, a type checker would need minutes for numpy's overloads."""

STORAGE = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
"""Storage type by size in bytes."""

_INTEGERS = {
    f"{sign}{bits}": np.dtype(f"{'int' if sign == 's' else 'uint'}{bits}") for sign in "bus" for bits in (8, 16, 32, 64)
}
_FLOATS = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
NUMBERS: dict[str, np.dtype] = {**_INTEGERS, **_FLOATS, "f16x2": np.dtype(np.float16), "f32x2": np.dtype(np.float32)}
"""The kinds that numpy supports, including packed pairs."""

BFLOATS = ("bf16", "bf16x2")


def decode(bits: Array, kind: str) -> Array:
    """Converts bits of a kind's own width to values."""
    if kind in BFLOATS:
        return widen_bfloat(bits.view(np.uint16))
    return bits.view(NUMBERS[kind])


def encode(values: Array, kind: str, storage: np.dtype) -> Array:
    """Converts values of a kind to bits as registers hold them."""
    if kind in BFLOATS:
        return round_bfloat(values).view(storage)
    return values.astype(NUMBERS[kind], copy=False).view(storage)


def widen_bfloat(bits: Array) -> Array:
    """Converts bfloat16 bits to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_bfloat(values: Array, mode: str = "rn") -> Array:
    """Rounds to bfloat16 and returns the bits: to nearest (ties to even), or towards zero."""
    values = np.ascontiguousarray(values)
    if values.dtype == np.float64:
        values = _to_odd(values)
    bits = values.astype(np.float32, copy=False).view(np.uint32)
    top = bits >> np.uint32(16)
    if mode == "rn":
        top = (bits + np.uint32(0x7FFF) + (top & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), top).astype(np.uint16)


def _to_odd(values: Array) -> Array:
    """Converts float64 to float32 with rounding to odd, so that a second rounding is exact."""
    near = values.astype(np.float32)
    away = np.abs(near.astype(np.float64)) > np.abs(values)
    below = np.where(away, near.view(np.uint32) - np.uint32(1), near.view(np.uint32))
    inexact = near.astype(np.float64) != values
    return np.where(inexact & ~np.isnan(values), below | np.uint32(1), near.view(np.uint32)).view(np.float32)


def round_tensor_float(values: Array, mode: str = "rna") -> Array:
    """Rounds float32 to TF32 (10 mantissa bits), with ties away from zero ("rna") or to even ("rn"), or truncates."""
    bits = values.view(np.uint32)
    if mode == "rna":
        bits = bits + np.uint32(0x1000)
    elif mode == "rn":
        bits = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    finite = bits & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), finite, values.view(np.uint32)).view(np.float32)


def _table(exponent_bits: int, bias: int, infinite: bool) -> Array:
    """Returns the values of all codes of an 8-bit float type."""
    mantissa_bits = 7 - exponent_bits
    codes = np.arange(256)
    exponent, mantissa = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1), codes & ((1 << mantissa_bits) - 1)
    normal = np.ldexp(1 + mantissa / (1 << mantissa_bits), exponent - bias)
    values = np.where(exponent == 0, np.ldexp(mantissa / (1 << mantissa_bits), 1 - bias), normal)
    top = exponent == (1 << exponent_bits) - 1
    if infinite:
        values = np.where(top, np.where(mantissa == 0, np.inf, np.nan), values)
    else:
        values = np.where(top & (mantissa == (1 << mantissa_bits) - 1), np.nan, values)
    return np.where(codes & 128, -values, values).astype(np.float32)


FLOATS8 = {"e4m3": _table(4, 7, infinite=False), "e5m2": _table(5, 15, infinite=True)}
"""Value of each code of the 8-bit float types."""


def round_float8(values: Array, kind: str) -> Array:
    """Returns codes of the nearest 8-bit floats (ties to even); overflow saturates to the largest finite value."""
    table = FLOATS8[kind][:128]
    finite = np.flatnonzero(np.isfinite(table))
    levels = table[finite].astype(np.float64)
    size = np.abs(values.astype(np.float64))
    above = np.clip(np.searchsorted(levels, size), 1, len(levels) - 1)
    middle = (levels[above - 1] + levels[above]) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    codes = np.where(up, above, above - 1)
    codes = np.where(np.isnan(values), 0x7F, codes).astype(np.uint8)
    return codes | np.where(np.signbit(values), 0x80, 0).astype(np.uint8)


def flushed(values: Array) -> Array:
    """Replaces subnormal numbers by zeros of their sign."""
    smallest = np.finfo(values.dtype).smallest_normal
    return np.where(np.abs(values) < smallest, np.copysign(values.dtype.type(0), values), values)


def rounded(exact: Array, dtype: np.dtype, mode: str) -> Array:
    """Rounds float64 values to a narrower type: "rn", "rz", "rm" (down) or "rp" (up)."""
    near = exact.astype(dtype)
    if mode == "rn" or dtype == np.float64:
        return near
    back = near.astype(np.float64)
    high, low = back > exact, back < exact
    negative = np.signbit(exact)
    down = high & ((mode == "rm") | ((mode == "rz") & ~negative))
    up = low & ((mode == "rp") | ((mode == "rz") & negative))
    infinity = dtype.type(np.inf)
    return np.where(down, np.nextafter(near, -infinity), np.where(up, np.nextafter(near, infinity), near))


INTEGRAL: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil,
}  # fmt: skip
"""Rounding functions of conversions to integers, by rounding mode."""
