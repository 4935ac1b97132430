"""Elementwise ops: one linalg.generic each, with the op's scalar code as its body."""

from __future__ import annotations

import math as python_math
from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import arith, math

from ...dialects.core import Op
from ...dialects.interfaces import Interface
from ...dialects.registry import OPS
from ...dialects.stepwell.elementwise import BitcastOp, CastOp, ElementwiseOp, SelectOp
from ...dialects.types import is_float, spec_of_type
from ...passes.infra.base import PassError
from ..builders import scalars
from ..builders.scalars import number
from ..builders.tensors import elementwise_generic
from . import activations, integers
from .rules import LINALG

_Scalar = Callable[..., ir.Value]
"""A function of an op, the dtype of its first operand, and one unpacked scalar in the compute type per operand."""

SCALAR = Interface[_Scalar](
    "scalar", "emits one element of an elementwise op's result", rooms=("lowering.stepwell_to_linalg.elementwise",)
)


def _floats_or_ints(on_floats: Callable, on_ints: Callable) -> _Scalar:
    return lambda op, dtype, *values: (on_floats if is_float(dtype) else on_ints)(*values)


def _compare(on_floats: arith.CmpFPredicate, on_ints: arith.CmpIPredicate, on_unsigned: arith.CmpIPredicate) -> _Scalar:
    def compute(op: Op, dtype: np.dtype, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        if is_float(dtype):
            return arith.cmpf(on_floats, lhs, rhs)
        return arith.cmpi(on_unsigned if dtype.kind in "ub" else on_ints, lhs, rhs)

    return compute


def _plain(function: Callable[..., ir.Value]) -> _Scalar:
    return lambda op, dtype, *values: function(*values)


def _abs(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    if is_float(dtype):
        return math.absf(value)
    return value if dtype.kind == "u" else math.absi(value)


def _neg(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    return arith.negf(value) if is_float(dtype) else arith.subi(number(0, value.type), value)


def _sign(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    zero, one = number(0, value.type), number(1, value.type)
    if dtype.kind == "u":
        return arith.minui(value, one)
    if not is_float(dtype):
        return arith.maxsi(arith.minsi(value, one), number(-1, value.type))
    negative = arith.select(arith.cmpf(arith.CmpFPredicate.OLT, value, zero), number(-1, value.type), value)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, value, zero), one, negative)


def _pow(op: Op, dtype: np.dtype, base: ir.Value, exponent: ir.Value) -> ir.Value:
    return math.powf(base, exponent) if is_float(dtype) else integers.power(base, exponent, dtype)


def _div(op: Op, dtype: np.dtype, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    if is_float(dtype):
        return arith.divf(lhs, rhs)
    quotient = (arith.divui if dtype.kind == "u" else arith.divsi)(lhs, scalars.safe_divisor(lhs, rhs, dtype))
    # As in numpy.
    zero = number(0, rhs.type)
    return arith.select(arith.cmpi(arith.CmpIPredicate.eq, rhs, zero), zero, quotient)


def _mod(op: Op, dtype: np.dtype, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    if is_float(dtype):
        return arith.remf(lhs, rhs)
    rhs = scalars.safe_divisor(lhs, rhs, dtype)
    if dtype.kind == "u":
        return arith.remui(lhs, rhs)
    remainder, zero = arith.remsi(lhs, rhs), number(0, lhs.type)
    has_other_sign = arith.cmpi(arith.CmpIPredicate.slt, arith.xori(remainder, rhs), zero)
    is_inexact = arith.cmpi(arith.CmpIPredicate.ne, remainder, zero)
    return arith.select(arith.andi(has_other_sign, is_inexact), arith.addi(remainder, rhs), remainder)


def _relu(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    return value if dtype.kind == "u" else scalars.at_least(value, number(0, value.type))


def _clip(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    low, high = op.attribute_values()["minimum"], op.attribute_values()["maximum"]
    if is_float(dtype):
        # A bound is rounded to the tensor's own type, which matters for types shorter than f32.
        low, high = (float(np.asarray(bound).astype(dtype)) for bound in (low, high))
        value = value if low == -np.inf else scalars.at_least(value, number(low, value.type))
        return value if high == np.inf else scalars.at_most(value, number(high, value.type))
    info = np.iinfo(dtype)
    if low > info.min:
        value = scalars.maximum(value, number(_wrapped(python_math.ceil(low), dtype), value.type), dtype)
    if high < info.max:
        value = scalars.minimum(value, number(_wrapped(python_math.floor(high), dtype), value.type), dtype)
    return value


def _wrapped(value: int, dtype: np.dtype) -> int:
    """Returns the signed number with the bits of `value`, as MLIR writes constants."""
    bits = 8 * dtype.itemsize
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def _not(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    return arith.xori(value, number(1 if dtype == np.bool_ else -1, value.type))


def _masked(op: Op, dtype: np.dtype, value: ir.Value, mask: ir.Value) -> ir.Value:
    otherwise = np.asarray(op.attribute_values()["otherwise"]).astype(dtype).item()
    if is_float(dtype):
        is_kept = arith.cmpf(arith.CmpFPredicate.UNE, mask, number(0, mask.type))
    else:
        is_kept = arith.cmpi(arith.CmpIPredicate.ne, mask, number(0, mask.type))
    return arith.select(
        is_kept, value, number(otherwise if is_float(dtype) else _wrapped(otherwise, dtype), value.type)
    )


_FLOAT, _INT = arith.CmpFPredicate, arith.CmpIPredicate
_SCALARS: dict[str, _Scalar] = {
    "abs": _abs,
    "neg": _neg,
    "sign": _sign,
    "exp": _plain(math.exp),
    "log": _plain(math.log),
    "sqrt": _plain(math.sqrt),
    "rsqrt": _plain(lambda x: arith.divf(number(1, x.type), math.sqrt(x))),
    "reciprocal": _plain(lambda x: arith.divf(number(1, x.type), x)),
    "tanh": _plain(math.tanh),
    "erf": _plain(math.erf),
    "sin": _plain(math.sin),
    "cos": _plain(math.cos),
    **{name: _plain(getattr(math, name)) for name in ("tan", "asin", "acos", "atan")},
    **{name: _plain(getattr(math, name)) for name in ("sinh", "cosh", "asinh", "acosh", "atanh")},
    "floor": _plain(math.floor),
    "ceil": _plain(math.ceil),
    "round": _plain(math.roundeven),
    "add": _floats_or_ints(arith.addf, arith.addi),
    "sub": _floats_or_ints(arith.subf, arith.subi),
    "mul": _floats_or_ints(arith.mulf, arith.muli),
    "div": _div,
    "mod": _mod,
    "pow": _pow,
    "minimum": lambda op, dtype, lhs, rhs: scalars.minimum(lhs, rhs, dtype),
    "maximum": lambda op, dtype, lhs, rhs: scalars.maximum(lhs, rhs, dtype),
    "equal": _compare(_FLOAT.OEQ, _INT.eq, _INT.eq),
    "less": _compare(_FLOAT.OLT, _INT.slt, _INT.ult),
    "less_equal": _compare(_FLOAT.OLE, _INT.sle, _INT.ule),
    "greater": _compare(_FLOAT.OGT, _INT.sgt, _INT.ugt),
    "greater_equal": _compare(_FLOAT.OGE, _INT.sge, _INT.uge),
    "and": _plain(arith.andi),
    "or": _plain(arith.ori),
    "xor": _plain(arith.xori),
    "not": _not,
    "shift_left": integers.shift_left,
    "shift_right": integers.shift_right,
    "mask": _masked,
    "relu": _relu,
    "clip": _clip,
    **activations.SCALARS,
}
for _name, _scalar in _SCALARS.items():
    SCALAR.attach(OPS[f"stepwell.{_name}"])(_scalar)


def scalar_body(op: Op) -> Callable[..., ir.Value]:
    """Returns the scalar code of an elementwise op: a function of one unpacked scalar per operand.

    Floats narrower than f32 are computed in f32 and rounded once per op, as in the reference implementation.

    Raises:
        PassError: the op is not elementwise.
    """
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    if isinstance(op, CastOp):
        return lambda value: scalars.convert(value, dtype, op.dtype)
    if isinstance(op, BitcastOp):
        return lambda value: scalars.reinterpret(value, dtype, op.dtype)
    if isinstance(op, SelectOp):
        return arith.select
    compute = SCALAR.of(type(op))
    if compute is None:
        raise PassError(f"'{op.OPERATION_NAME}' op is not elementwise", op.operation.location)
    kinds = [spec_of_type(value.type).dtype for value in op.operation.operands]
    result = spec_of_type(op.operation.results[0].type).dtype

    def body(*values: ir.Value) -> ir.Value:
        wide = map(scalars.computable, values, kinds)
        return scalars.computed(compute(op, scalars.compute_dtype(dtype), *wide), result)

    return body


@LINALG.attach(ElementwiseOp)
def elementwise(op: Any, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits one linalg.generic; broadcasting is in its indexing maps."""
    dtypes = [spec_of_type(value.type).dtype for value in op.operation.operands]
    result = spec_of_type(op.operation.results[0].type).dtype
    compute = scalar_body(op)

    def body(*values: ir.Value) -> ir.Value:
        unpacked = [scalars.unpack(value, dtype) for value, dtype in zip(values, dtypes, strict=True)]
        return scalars.pack(compute(*unpacked), result)

    return [elementwise_generic(inputs, outs[0], body)]
