"""Scalar arithmetic for the bodies of linalg ops, with numpy's semantics.

Element types are signless here, so functions whose result depends on the sign take the numpy dtype.
"""

from __future__ import annotations

import numpy as np
from mlir import ir
from mlir.dialects import arith, math

from ...dialects.types import byte_integer, element_type, integer_bits, is_float, is_tiny_float
from . import tiny_floats

CONTRACT = "#arith.fastmath<contract>"
AFN = "#arith.fastmath<afn>"
_NO_SIGNED_ZEROS = "#arith.fastmath<nsz>"


def flags(text: str) -> ir.Attribute:
    """Returns fast-math flags."""
    return ir.Attribute.parse(text)


def signless(kind: ir.Type) -> ir.Type:
    """Returns the type that holds elements of `kind` in kernels; for tensors, with such an element type.

    Integers are signless; all types of eight bits or less, floats too, become a byte.
    """
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType.get(list(kind.shape), signless(kind.element_type))
    if isinstance(kind, ir.IntegerType):
        return ir.IntegerType.get_signless(max(8, kind.width))
    if isinstance(kind, ir.FloatType) and kind.width <= 8:
        return ir.IntegerType.get_signless(8)
    return kind


def number(value: float | int, kind: ir.Type) -> ir.Value:
    """Returns a constant."""
    return arith.constant(kind, float(value) if isinstance(kind, ir.FloatType) else int(value))


def unpack(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """Converts a loaded scalar for the scalar code of an op: a bool is one bit, an integer of a few bits a byte."""
    if dtype != np.bool_:
        return wrap(value, dtype)
    return arith.trunci(ir.IntegerType.get_signless(1), value)


def pack(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """Converts a scalar for storing; the inverse of `unpack`."""
    if dtype == np.bool_:
        return arith.extui(ir.IntegerType.get_signless(8), value)
    if byte_integer(dtype) == dtype:
        return value
    return arith.andi(value, number((1 << integer_bits(dtype)) - 1, value.type))


def wrap(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """Wraps a byte around to an integer type of less than a byte, as a byte; leaves other dtypes unchanged."""
    if byte_integer(dtype) == dtype:
        return value
    bits = integer_bits(dtype)
    if byte_integer(dtype).kind == "u":
        return arith.andi(value, number((1 << bits) - 1, value.type))
    places = number(8 - bits, value.type)
    return arith.shrsi(arith.shli(value, places), places)


def computable(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """Converts an unpacked scalar to the type in which it is computed."""
    return tiny_floats.decode(value, dtype) if is_tiny_float(dtype) else widen(value)


def computed(value: ir.Value, dtype: np.dtype) -> ir.Value:
    """Converts a computed value to an unpacked scalar."""
    if is_tiny_float(dtype):
        return tiny_floats.encode(value, dtype)
    return narrow(value, element_type(dtype)) if is_float(dtype) else wrap(value, dtype)


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """Returns the dtype in which scalar code computes values of `dtype`."""
    return np.dtype(np.float32) if is_tiny_float(dtype) else byte_integer(dtype)


def compute_type(kind: ir.Type) -> ir.Type:
    """Returns the type in which floats of `kind` are computed: f32 for those with less precision."""
    return ir.F32Type.get() if isinstance(kind, ir.FloatType) and kind.width < 32 else kind


def widen(value: ir.Value) -> ir.Value:
    """Returns `value` in its compute type."""
    wide = compute_type(value.type)
    return value if wide == value.type else arith.extf(wide, value)


def narrow(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Converts a value in compute type back to its storage type."""
    return value if value.type == kind else arith.truncf(kind, value)


def maximum(lhs: ir.Value, rhs: ir.Value, dtype: np.dtype) -> ir.Value:
    """Returns the greater of two values; NaN if one of them is."""
    if is_float(dtype):
        return arith.maximumf(lhs, rhs, fastmath=flags(_NO_SIGNED_ZEROS))
    return (arith.maxui if dtype.kind in "ub" else arith.maxsi)(lhs, rhs)


def minimum(lhs: ir.Value, rhs: ir.Value, dtype: np.dtype) -> ir.Value:
    """Returns the lesser of two values; NaN if one of them is."""
    if is_float(dtype):
        return arith.minimumf(lhs, rhs, fastmath=flags(_NO_SIGNED_ZEROS))
    return (arith.minui if dtype.kind in "ub" else arith.minsi)(lhs, rhs)


def at_least(value: ir.Value, bound: ir.Value) -> ir.Value:
    """Returns `max(value, bound)` for a bound that is not NaN, in one instruction on x86; NaN stays NaN."""
    if isinstance(value.type, ir.FloatType):
        return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, bound, value), bound, value)
    return arith.maxsi(value, bound)


def at_most(value: ir.Value, bound: ir.Value) -> ir.Value:
    """Returns `min(value, bound)` for a bound that is not NaN."""
    if isinstance(value.type, ir.FloatType):
        return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, bound, value), bound, value)
    return arith.minsi(value, bound)


def safe_divisor(lhs: ir.Value, rhs: ir.Value, dtype: np.dtype) -> ir.Value:
    """Returns `rhs`, or 1 if an integer division by it would trap: by zero, or of the least number by -1.

    The idle lanes of a masked vector hold zeros, so this matters for valid data too.
    """
    traps = arith.cmpi(arith.CmpIPredicate.eq, rhs, number(0, rhs.type))
    if dtype.kind == "i":
        least = number(int(np.iinfo(dtype).min), lhs.type)
        overflows = arith.andi(
            arith.cmpi(arith.CmpIPredicate.eq, lhs, least),
            arith.cmpi(arith.CmpIPredicate.eq, rhs, number(-1, rhs.type)),
        )
        traps = arith.ori(traps, overflows)
    return arith.select(traps, number(1, rhs.type), rhs)


def exp_of_normal(value: ir.Value) -> ir.Value:
    """Returns the exponential, or 0 if it is denormal; for uses that add a number to it."""
    return math.exp(value, fastmath=flags(AFN))


def sigmoid(value: ir.Value) -> ir.Value:
    """Returns `1 / (1 + exp(-x))`."""
    one = number(1, value.type)
    return arith.divf(one, arith.addf(one, exp_of_normal(arith.negf(value))))


def convert(value: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
    """Converts an unpacked scalar to another dtype, like numpy's astype."""
    if source == target:
        return value
    if is_tiny_float(source):
        return convert(tiny_floats.decode(value, source), np.dtype(np.float32), target)
    if is_tiny_float(target):
        return tiny_floats.encode(convert(value, source, np.dtype(np.float32)), target)
    whole = byte_integer(target)
    return wrap(_convert(value, byte_integer(source), whole), target)


def _convert(value: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
    if source == target:
        return value
    kind = signless(element_type(target))
    if target == np.bool_:
        return _is_not_zero(value, source)
    if is_float(source):
        return _from_float(value, kind, target)
    if is_float(target):
        wide = compute_type(kind)
        return narrow((arith.uitofp if source.kind in "ub" else arith.sitofp)(wide, value), kind)
    width, old = _bits(kind), _bits(value.type)
    if width == old:
        return value
    if width < old:
        return arith.trunci(kind, value)
    return (arith.extui if source.kind in "ub" else arith.extsi)(kind, value)


def reinterpret(value: ir.Value, source: np.dtype, target: np.dtype) -> ir.Value:
    """Returns an unpacked scalar's bits as an unpacked scalar of another dtype."""
    stored = pack(value, source)
    kind = signless(element_type(target))
    if target == np.bool_:
        return _is_not_zero(stored, np.dtype(np.int8))
    return unpack(stored if stored.type == kind else arith.bitcast(kind, stored), target)


def _bits(kind: ir.Type) -> int:
    assert isinstance(kind, ir.IntegerType | ir.FloatType)
    return kind.width


def _is_not_zero(value: ir.Value, source: np.dtype) -> ir.Value:
    zero = number(0, value.type)
    if is_float(source):
        return arith.cmpf(arith.CmpFPredicate.UNE, value, zero)
    return arith.cmpi(arith.CmpIPredicate.ne, value, zero)


def _from_float(value: ir.Value, kind: ir.Type, target: np.dtype) -> ir.Value:
    if not is_float(target):
        # A signed conversion to a wider type covers every number of a narrow one; LLVM has no narrow vector forms.
        width = max(32, _bits(kind))
        wide = ir.IntegerType.get_signless(width)
        convert_float = arith.fptoui if target.kind == "u" and width == _bits(kind) else arith.fptosi
        whole = convert_float(wide, widen(value))
        return whole if width == _bits(kind) else arith.trunci(kind, whole)
    old, new = _bits(value.type), _bits(kind)
    if old == new:
        return arith.truncf(kind, widen(value))
    if new > old:
        return arith.extf(kind, value)
    # Few machines convert in one step; rounding to an odd last bit in between gives the same result. To bf16, the
    # value is rounded twice, as in ml_dtypes.
    near = _to_odd(value) if old == 64 and isinstance(kind, ir.F16Type) else value
    near = arith.truncf(ir.F32Type.get(), near) if _bits(near.type) == 64 and new < 32 else near
    return arith.truncf(kind, near)


def _to_odd(value: ir.Value) -> ir.Value:
    """Converts an f64 to f32, rounding to odd: a second rounding to fewer bits then gives the correct result."""
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    near = arith.truncf(ir.F32Type.get(), value)
    back, bits = arith.extf(value.type, near), arith.bitcast(i32, near)
    mask = number((1 << 63) - 1, i64)
    sizes = [arith.andi(arith.bitcast(i64, item), mask) for item in (back, value)]
    is_above = arith.cmpi(arith.CmpIPredicate.sgt, *sizes)
    below = arith.ori(arith.subi(bits, arith.extui(i32, is_above)), number(1, i32))
    is_exact = arith.cmpf(arith.CmpFPredicate.UEQ, back, value)
    return arith.bitcast(near.type, arith.select(is_exact, bits, below))
