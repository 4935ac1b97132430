"""Conversion of eight-bit and four-bit floats, which have no machine arithmetic, from and to f32.

A format has a sign, an exponent and a fraction like f32, but shorter. Rounding is to nearest even. Numbers too large
for a format become infinite, NaN or, in four bits, the greatest number. Numbers of other types are rounded to f32
first. Both are as in ml_dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from mlir import ir
from mlir.dialects import arith

_GREATER, _EQUAL, _LESS = arith.CmpIPredicate.sgt, arith.CmpIPredicate.eq, arith.CmpIPredicate.slt
_F32_BIAS, _F32_FRACTION = 127, 23
"""Exponent bias and number of fraction bits of binary32 (IEEE 754)."""
_F32_NAN = 0x7FC00000
"""The quiet NaN of binary32 without further fraction bits."""


@dataclass(frozen=True)
class _Format:
    """Bit layout of a float format.

    Attributes:
        fraction: number of bits of the fraction.
        bias: exponent bias.
        sign: sign bit.
        greatest: code of the greatest number.
        overflow: code of greater numbers; None if they become the greatest number.
        nan: code of NaN; None if the format has none.
        has_negative_zero: whether 0 has a sign; otherwise, the code of negative zero is NaN's.
    """

    fraction: int
    bias: int
    sign: int
    greatest: int
    overflow: int | None
    nan: int | None
    has_negative_zero: bool = True


_FORMATS: dict[np.dtype, _Format] = {
    np.dtype(ml_dtypes.float8_e4m3fn): _Format(3, 7, 0x80, 0x7E, 0x7F, 0x7F),
    np.dtype(ml_dtypes.float8_e4m3fnuz): _Format(3, 8, 0x80, 0x7F, 0x80, 0x80, has_negative_zero=False),
    np.dtype(ml_dtypes.float8_e5m2): _Format(2, 15, 0x80, 0x7B, 0x7C, 0x7E),
    np.dtype(ml_dtypes.float8_e5m2fnuz): _Format(2, 16, 0x80, 0x7F, 0x80, 0x80, has_negative_zero=False),
    np.dtype(ml_dtypes.float4_e2m1fn): _Format(1, 1, 0x08, 0x07, None, None),
}


def decode(code: ir.Value, dtype: np.dtype) -> ir.Value:
    """Converts a byte of a tiny float to f32, which is always exact."""
    bits = arith.extui(_i32(), code)
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):
        return _power_of_two(bits)
    form = _FORMATS[dtype]
    magnitude = arith.andi(bits, _integer(form.sign - 1))
    shift = _F32_FRACTION - form.fraction
    normal = arith.addi(arith.shli(magnitude, _integer(shift)), _integer((_F32_BIAS - form.bias) << _F32_FRACTION))
    steps = arith.mulf(arith.sitofp(_f32(), magnitude), _number(2.0 ** (1 - form.bias - form.fraction)))
    is_denormal = arith.cmpi(_LESS, magnitude, _integer(1 << form.fraction))
    size = arith.select(is_denormal, arith.bitcast(_i32(), steps), normal)
    if form.overflow is not None and form.overflow == form.greatest + 1 and form.overflow != form.nan:
        size = arith.select(arith.cmpi(_EQUAL, magnitude, _integer(form.overflow)), _integer(0x7F800000), size)
        size = arith.select(arith.cmpi(_GREATER, magnitude, _integer(form.overflow)), _integer(_F32_NAN), size)
    elif form.nan is not None:
        coded = magnitude if form.has_negative_zero else bits
        size = arith.select(arith.cmpi(_EQUAL, coded, _integer(form.nan)), _integer(_F32_NAN), size)
    places = 31 - (form.sign.bit_length() - 1)
    sign = arith.shli(arith.andi(bits, _integer(form.sign)), _integer(places))
    return arith.bitcast(_f32(), arith.ori(size, sign))


def encode(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """Returns the byte of the tiny float that is nearest to an f32."""
    bits = arith.bitcast(_i32(), value)
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):
        return arith.trunci(_i8(), _nearest_exponent(bits))
    form = _FORMATS[dtype]
    size = arith.andi(bits, _integer(0x7FFFFFFF))
    shift = _F32_FRACTION - form.fraction
    is_odd = arith.andi(arith.shrui(size, _integer(shift)), _integer(1))
    rounded = arith.addi(arith.addi(size, _integer((1 << (shift - 1)) - 1)), is_odd)
    normal = arith.subi(arith.shrui(rounded, _integer(shift)), _integer((_F32_BIAS - form.bias) << form.fraction))
    # Added to this number, the last place of an f32 is the step between denormal numbers.
    anchor = 2.0 ** (1 - form.bias - form.fraction + _F32_FRACTION)
    anchored = arith.addf(arith.bitcast(_f32(), size), _number(anchor))
    steps = arith.subi(arith.bitcast(_i32(), anchored), _integer(int(np.float32(anchor).view(np.int32))))
    is_denormal = arith.cmpi(_LESS, size, _integer((_F32_BIAS + 1 - form.bias) << _F32_FRACTION))
    code = arith.select(is_denormal, steps, normal)
    sign = arith.andi(arith.shrui(bits, _integer(31 - (form.sign.bit_length() - 1))), _integer(form.sign))
    if not form.has_negative_zero:
        sign = arith.select(arith.cmpi(_EQUAL, code, _integer(0)), _integer(0), sign)
    is_nan = arith.cmpi(_GREATER, size, _integer(0x7F800000))
    is_too_big = arith.cmpi(_GREATER, code, _integer(form.greatest))
    code = arith.select(is_too_big, _integer(form.greatest if form.overflow is None else form.overflow), code)
    if form.nan is None:
        # Without a NaN in the format, NaN becomes -0.
        code = arith.ori(arith.select(is_nan, _integer(0), code), arith.select(is_nan, _integer(form.sign), sign))
    else:
        code = arith.ori(arith.select(is_nan, _integer(form.nan), code), sign)
    return arith.trunci(_i8(), code)


def _power_of_two(bits: ir.Value) -> ir.Value:
    """Returns 2 ** (code - 127): code 255 is NaN, and 0 a denormal f32."""
    value = arith.shli(bits, _integer(_F32_FRACTION))
    value = arith.select(arith.cmpi(_EQUAL, bits, _integer(0)), _integer(1 << (_F32_FRACTION - 1)), value)
    value = arith.select(arith.cmpi(_EQUAL, bits, _integer(255)), _integer(_F32_NAN), value)
    return arith.bitcast(_f32(), value)


def _nearest_exponent(bits: ir.Value) -> ir.Value:
    """Returns the exponent of the nearest power of two, the even one if halfway; 255 unless the f32 is positive."""
    exponent = arith.shrui(bits, _integer(_F32_FRACTION))
    is_odd = arith.andi(exponent, _integer(1))
    half = arith.addi(arith.addi(bits, _integer((1 << (_F32_FRACTION - 1)) - 1)), is_odd)
    code = arith.minsi(arith.shrui(half, _integer(_F32_FRACTION)), _integer(255))
    # Denormal numbers, which include 2 ** -127.
    code = arith.select(arith.cmpi(_LESS, bits, _integer(1 << _F32_FRACTION)), _denormal_exponent(bits), code)
    is_positive = arith.cmpi(_GREATER, bits, _integer(0))
    return arith.select(is_positive, code, _integer(255))


def _denormal_exponent(bits: ir.Value) -> ir.Value:
    """Returns 0 if a denormal f32 is nearer to 2 ** -127, 1 if nearer to 2 ** -126; halfway, the even one."""
    is_above = arith.cmpi(_GREATER, bits, _integer(3 << (_F32_FRACTION - 2)))
    return arith.extui(_i32(), is_above)


def _integer(value: int) -> ir.Value:
    return arith.constant(_i32(), value)


def _number(value: float) -> ir.Value:
    return arith.constant(_f32(), value)


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _i8() -> ir.Type:
    return ir.IntegerType.get_signless(8)


def _f32() -> ir.Type:
    return ir.F32Type.get()
