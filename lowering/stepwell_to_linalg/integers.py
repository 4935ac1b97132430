"""Integer operations without a machine instruction: powers, and shifts by any number of bits."""

from __future__ import annotations

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ...dialects.core import Op
from ...dialects.types import integer_bits, spec_of_type
from ..builders.scalars import number

_EQUAL, _UNSIGNED_LESS = arith.CmpIPredicate.eq, arith.CmpIPredicate.ult


def power(base: ir.Value, exponent: ir.Value, dtype: np.dtype) -> ir.Value:
    """Emits `base ** exponent` by repeated squaring, wrapping around.

    A negative power is an integer only for 1 and -1; for other bases it is 0.
    """
    zero, one = number(0, base.type), number(1, base.type)
    result, square = one, base
    bits = integer_bits(dtype)
    for bit_index in range(bits if dtype.kind == "u" else bits - 1):
        bit = arith.andi(exponent, number(1 << bit_index if bit_index < bits - 1 else -(1 << bit_index), base.type))
        is_used = arith.cmpi(arith.CmpIPredicate.ne, bit, zero)
        result = arith.select(is_used, arith.muli(result, square), result)
        square = arith.muli(square, square)
    if dtype.kind == "u":
        return result
    # (-1) ** n depends on the lowest bit only, whatever the sign of n.
    is_odd = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(exponent, one), zero)
    minus = number(-1, base.type)
    of_minus = arith.select(is_odd, minus, one)
    inverse = arith.select(arith.cmpi(_EQUAL, base, one), one, zero)
    inverse = arith.select(arith.cmpi(_EQUAL, base, minus), of_minus, inverse)
    return arith.select(arith.cmpi(arith.CmpIPredicate.slt, exponent, zero), inverse, result)


def shift_left(op: Op, dtype: np.dtype, value: ir.Value, amount: ir.Value) -> ir.Value:
    """Emits a left shift; 0 if no bits are left."""
    is_possible, some = _possible(op, amount)
    return arith.select(is_possible, arith.shli(value, some), number(0, value.type))


def shift_right(op: Op, dtype: np.dtype, value: ir.Value, amount: ir.Value) -> ir.Value:
    """Emits a right shift; the sign if no bits are left."""
    is_possible, some = _possible(op, amount)
    if dtype.kind == "u":
        return arith.select(is_possible, arith.shrui(value, some), number(0, value.type))
    all_places = number(8 * dtype.itemsize - 1, value.type)
    return arith.shrsi(value, arith.select(is_possible, some, all_places))


def _possible(op: Op, amount: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Returns whether a shift by `amount` is defined, and the amount if so, else 0."""
    bits = integer_bits(spec_of_type(op.operation.operands[0].type).dtype)
    is_possible = arith.cmpi(_UNSIGNED_LESS, amount, number(bits, amount.type))
    return is_possible, arith.select(is_possible, amount, number(0, amount.type))
