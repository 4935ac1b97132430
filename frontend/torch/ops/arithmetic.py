"""Functions of two tensors, or of a tensor and a number, after torch's promotion of types."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.types import is_float
from ...build import cast, constant, dtype, emit, scalar
from ..node import AtenNode
from ..registry import AtenHandler, imports
from ..symbols import like
from .elementwise import truncated

_ARITHMETIC: dict[str, type[Op]] = {
    "bitwise_and.Scalar": ew.AndOp,
    "bitwise_and.Tensor": ew.AndOp,
    "bitwise_or.Scalar": ew.OrOp,
    "bitwise_or.Tensor": ew.OrOp,
    "bitwise_xor.Scalar": ew.XorOp,
    "bitwise_xor.Tensor": ew.XorOp,
}
_COMPARISONS: dict[str, type[Op]] = {
    "eq": ew.EqualOp,
    "ge": ew.GreaterEqualOp,
    "gt": ew.GreaterOp,
    "le": ew.LessEqualOp,
    "lt": ew.LessOp,
}
_LOGIC: dict[str, type[Op]] = {"and": ew.AndOp, "or": ew.OrOp, "xor": ew.XorOp}


def as_value(value: Any, kind: np.dtype) -> ir.Value:
    """Returns a number or a value as a value of an element type."""
    return cast(value, kind) if isinstance(value, ir.Value) else constant(np.array(value).astype(kind))


def _in_result_type(op: type[Op]) -> AtenHandler:
    return lambda node, input, other: emit(op, as_value(input, node.dtype()), as_value(other, node.dtype()))


def _compared(op: type[Op]) -> AtenHandler:
    def handler(node: AtenNode, input: ir.Value, other: Any) -> ir.Value:
        kind = node.promoted("self", "other")
        return emit(op, as_value(input, kind), as_value(other, kind))

    return handler


def _logical(op: type[Op]) -> AtenHandler:
    return lambda node, input, other: emit(op, cast(input, np.bool_), cast(other, np.bool_))


for _name, _op in _ARITHMETIC.items():
    imports(f"aten.{_name}")(_in_result_type(_op))
for _name, _op in _COMPARISONS.items():
    imports(f"aten.{_name}.Scalar", f"aten.{_name}.Tensor")(_compared(_op))
for _name, _op in _LOGIC.items():
    imports(f"aten.logical_{_name}.default")(_logical(_op))


@imports("aten.ne.Scalar", "aten.ne.Tensor")
def unequal(node: AtenNode, input: ir.Value, other: Any) -> ir.Value:
    """x != y"""
    return emit(ew.NotOp, _compared(ew.EqualOp)(node, input, other))


def greater_of(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """The greater of two elements, NaN if either is; of bools the disjunction."""
    return emit(ew.OrOp if dtype(lhs).kind == "b" else ew.MaximumOp, lhs, rhs)


def lesser_of(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """The lesser of two elements, NaN if either is; of bools the conjunction."""
    return emit(ew.AndOp if dtype(lhs).kind == "b" else ew.MinimumOp, lhs, rhs)


@imports("aten.maximum.default")
def maximum(node: AtenNode, input: ir.Value, other: ir.Value) -> ir.Value:
    """max(x, y)"""
    return greater_of(cast(input, node.dtype()), cast(other, node.dtype()))


@imports("aten.minimum.default")
def minimum(node: AtenNode, input: ir.Value, other: ir.Value) -> ir.Value:
    """min(x, y)"""
    return lesser_of(cast(input, node.dtype()), cast(other, node.dtype()))


@imports("aten.clamp.Tensor")
def clamp_by_tensors(node: AtenNode, input: ir.Value, min: ir.Value | None, max: ir.Value | None) -> ir.Value:
    """min(max(x, low), high)"""
    value = cast(input, node.dtype())
    value = value if min is None else greater_of(value, cast(min, node.dtype()))
    return value if max is None else lesser_of(value, cast(max, node.dtype()))


def _number_first(node: AtenNode, lhs: ir.Value, rhs: ir.Value, is_greatest: bool) -> ir.Value:
    left, right = cast(lhs, node.dtype()), cast(rhs, node.dtype())
    made = greater_of(left, right) if is_greatest else lesser_of(left, right)
    if not is_float(node.dtype()):
        return made
    made = emit(ew.SelectOp, emit(ew.EqualOp, right, right), made, left)
    return emit(ew.SelectOp, emit(ew.EqualOp, left, left), made, right)


@imports("aten.fmax.default", "aten.fmin.default")
def extreme_number(node: AtenNode, input: ir.Value, other: ir.Value) -> ir.Value:
    """The greater or lesser of two elements, or the other one if one of them is NaN."""
    return _number_first(node, input, other, "fmax" in node.overload)


@imports("prims.fmax.default", "prims.fmin.default")
def extreme_number_of_same_type(node: AtenNode, input: ir.Value, b: ir.Value) -> ir.Value:
    """The same on operands of one type."""
    return _number_first(node, input, b, "fmax" in node.overload)


@imports("aten.signbit.default", "prims.signbit.default")
def sign_bit(node: AtenNode, input: ir.Value) -> ir.Value:
    """True for negative numbers, the negative zero included; that of a NaN is lost. torch declares floats for some."""
    if dtype(input).kind == "b":
        return emit(ew.AndOp, input, emit(ew.NotOp, input))
    made = _is_negative(input) if is_float(dtype(input)) else emit(ew.LessOp, input, scalar(0, input))
    return cast(made, node.dtype())


@imports("aten.add.Tensor", "aten.add.Scalar")
def add(node: AtenNode, input: Any, other: Any, alpha: Any) -> ir.Value:
    """x + alpha * y; of bools the disjunction"""
    lhs, rhs = _scaled(node, input, other, alpha)
    return emit(ew.OrOp if node.dtype().kind == "b" else ew.AddOp, lhs, rhs)


@imports("aten.sub.Tensor", "aten.sub.Scalar")
def sub(node: AtenNode, input: Any, other: Any, alpha: Any) -> ir.Value:
    """x - alpha * y"""
    return emit(ew.SubOp, *_scaled(node, input, other, alpha))


def _scaled(node: AtenNode, input: Any, other: Any, alpha: Any) -> tuple[ir.Value, ir.Value]:
    kind = node.dtype()
    lhs, rhs = as_value(input, kind), as_value(other, kind)
    if isinstance(alpha, ir.Value) or alpha != 1:
        rhs = emit(ew.AndOp if kind.kind == "b" else ew.MulOp, rhs, as_value(alpha, kind))
    return lhs, rhs


@imports("aten.mul.Tensor", "aten.mul.Scalar", "prims.mul.default")
def mul(node: AtenNode, input: Any, other: Any) -> ir.Value:
    """x * y; of bools the conjunction"""
    kind = node.dtype()
    return emit(ew.AndOp if kind.kind == "b" else ew.MulOp, as_value(input, kind), as_value(other, kind))


@imports("prims.fma.default")
def fma(node: AtenNode, input: Any, b: Any, c: Any) -> ir.Value:
    """x * b + c, as PyTorch's own kernel on CPUs: with a rounding after the product, unless code contracts it"""
    kind = node.dtype()
    product = emit(ew.MulOp, as_value(input, kind), as_value(b, kind))
    return emit(ew.AddOp, product, as_value(c, kind))


@imports(
    *("prims.div.default", "aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode"),
    *("aten.true_divide.Tensor", "aten.true_divide.Scalar"),
)
def div(node: AtenNode, input: Any, other: Any, rounding_mode: str | None = None) -> ir.Value:
    """x / y, rounded down or towards zero if the node says so."""
    kind = node.dtype()
    if rounding_mode is None:
        return emit(ew.DivOp, as_value(input, kind), as_value(other, kind))
    lhs, rhs = as_value(input, kind), as_value(other, kind)
    if rounding_mode == "trunc":
        quotient = emit(ew.DivOp, lhs, rhs)
        return truncated(quotient) if is_float(kind) else quotient
    return _floored(lhs, rhs)


def _floored(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """x / y rounded down: the multiple of y below x is exact, so that rounding the quotient cannot exceed it."""
    if dtype(lhs).kind in "iu":
        return emit(ew.DivOp, emit(ew.SubOp, lhs, emit(ew.ModOp, lhs, rhs)), rhs)
    exact = emit(ew.DivOp, emit(ew.SubOp, lhs, modulo(lhs, rhs)), rhs)
    plain = emit(ew.DivOp, lhs, rhs)
    is_finite = emit(ew.LessOp, emit(ew.AbsOp, plain), scalar(np.inf, plain))
    return emit(ew.SelectOp, is_finite, emit(ew.RoundOp, exact), plain)


def modulo(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """The remainder of a division that rounds down: it has the divisor's sign."""
    if not is_float(dtype(lhs)):
        return emit(ew.ModOp, lhs, rhs)
    rest = emit(ew.ModOp, lhs, rhs)
    zero = scalar(0, rest)
    differ = emit(ew.XorOp, emit(ew.LessOp, rest, zero), emit(ew.LessOp, rhs, zero))
    is_moved = emit(ew.AndOp, differ, emit(ew.NotOp, emit(ew.EqualOp, rest, zero)))
    return emit(ew.SelectOp, is_moved, emit(ew.AddOp, rest, rhs), rest)


@imports("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(node: AtenNode, input: Any, other: Any) -> ir.Value:
    """x - floor(x / y) * y"""
    return modulo(as_value(input, node.dtype()), as_value(other, node.dtype()))


@imports("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(node: AtenNode, input: Any, other: Any) -> ir.Value:
    """x - trunc(x / y) * y"""
    lhs, rhs = as_value(input, node.dtype()), as_value(other, node.dtype())
    if is_float(node.dtype()):
        return emit(ew.ModOp, lhs, rhs)
    return emit(ew.SubOp, lhs, emit(ew.MulOp, emit(ew.DivOp, lhs, rhs), rhs))


@imports("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(node: AtenNode, input: Any, exponent: Any) -> ir.Value:
    """x ** y; the exponents that torch computes by other functions are computed by these"""
    kind = node.dtype()
    base = as_value(input, kind)
    if isinstance(exponent, int | float) and is_float(kind):
        known = _known_power(base, float(exponent))
        if known is not None:
            return known
    if isinstance(exponent, int) and kind.kind in "iu" and 0 < exponent <= 3:
        return _repeated(base, exponent)
    return emit(ew.PowOp, base, as_value(exponent, kind))


def _known_power(base: ir.Value, exponent: float) -> ir.Value | None:
    if exponent in (1.0, 2.0, 3.0):
        return _repeated(base, int(exponent))
    if exponent == 0.5:
        return emit(ew.SqrtOp, base)
    if exponent == -0.5:
        return emit(ew.RsqrtOp, base)
    if exponent in (-1.0, -2.0):
        return emit(ew.ReciprocalOp, _repeated(base, int(-exponent)))
    return None


def _repeated(base: ir.Value, count: int) -> ir.Value:
    made = base
    for _ in range(count - 1):
        made = emit(ew.MulOp, made, base)
    return made


@imports("aten.atan2.default")
def atan2(node: AtenNode, input: ir.Value, other: ir.Value) -> ir.Value:
    """The angle of the point (other, input): that of the slope, moved by half a turn left of the origin.

    Of both coordinates, the greater magnitude is the divisor: the slope is at most 1.
    """
    y, x = (cast(value, node.dtype()) for value in (input, other))
    zero = scalar(0, x)
    across, along = emit(ew.AbsOp, y), emit(ew.AbsOp, x)
    low, high = emit(ew.MinimumOp, across, along), emit(ew.MaximumOp, across, along)
    both_infinite = emit(ew.EqualOp, low, scalar(np.inf, low))
    is_origin = emit(ew.EqualOp, high, zero)
    slope = emit(ew.DivOp, low, emit(ew.SelectOp, is_origin, scalar(1, high), high))
    slope = emit(ew.SelectOp, both_infinite, scalar(1, slope), slope)
    angle = emit(ew.AtanOp, slope)
    angle = emit(ew.SelectOp, emit(ew.GreaterOp, across, along), emit(ew.SubOp, scalar(np.pi / 2, angle), angle), angle)
    # The sign of a zero counts: only its reciprocal shows it.
    angle = emit(ew.SelectOp, _is_negative(x), emit(ew.SubOp, scalar(np.pi, angle), angle), angle)
    return emit(ew.SelectOp, _is_negative(y), emit(ew.NegOp, angle), angle)


@imports("aten.hypot.default")
def hypot(node: AtenNode, input: ir.Value, other: ir.Value) -> ir.Value:
    """sqrt(x * x + y * y), without squares that overflow: high * sqrt(1 + (low / high) ** 2) of both magnitudes"""
    across, along = (emit(ew.AbsOp, cast(value, node.dtype())) for value in (input, other))
    low, high = emit(ew.MinimumOp, across, along), emit(ew.MaximumOp, across, along)
    one = scalar(1, high)
    is_plain = emit(ew.AndOp, emit(ew.GreaterOp, high, scalar(0, high)), emit(ew.LessOp, high, scalar(np.inf, high)))
    ratio = emit(ew.DivOp, low, emit(ew.SelectOp, is_plain, high, one))
    made = emit(ew.MulOp, high, emit(ew.SqrtOp, emit(ew.AddOp, emit(ew.MulOp, ratio, ratio), one)))
    return emit(ew.SelectOp, is_plain, made, high)


def _is_negative(value: ir.Value) -> ir.Value:
    zero = scalar(0, value)
    of_zero = emit(ew.LessOp, emit(ew.ReciprocalOp, value), zero)
    return emit(ew.OrOp, emit(ew.LessOp, value, zero), emit(ew.AndOp, emit(ew.EqualOp, value, zero), of_zero))


@imports("aten.where.self")
def where(node: AtenNode, condition: ir.Value, input: ir.Value, other: ir.Value) -> ir.Value:
    """Elements of one tensor where a condition holds, else of another."""
    kind = node.dtype()
    return emit(ew.SelectOp, cast(condition, np.bool_), cast(input, kind), cast(other, kind))


@imports("prims.where.default")
def where_of_same_type(node: AtenNode, pred: ir.Value, a: Any, b: Any) -> ir.Value:
    """The same on operands of one type, which may be numbers."""
    return emit(ew.SelectOp, pred, as_value(a, node.dtype()), as_value(b, node.dtype()))


@imports("aten.copysign.Tensor", "aten.copysign.Scalar")
def copy_sign(node: AtenNode, input: ir.Value, other: Any) -> ir.Value:
    """The magnitude of x with the sign of y."""
    magnitude = emit(ew.AbsOp, cast(input, node.dtype()))
    return emit(ew.SelectOp, _is_negative(as_value(other, node.dtype())), emit(ew.NegOp, magnitude), magnitude)


@imports("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(node: AtenNode, input: ir.Value, mask: ir.Value, value: Any) -> ir.Value:
    """A number where a mask holds, else the elements of a tensor."""
    return emit(ew.SelectOp, mask, like(value, input), input)


@imports("aten.bitwise_left_shift.Tensor", "aten.__lshift__.Scalar", "aten.__lshift__.Tensor")
def shift_left(node: AtenNode, input: Any, other: Any) -> ir.Value:
    """x << y"""
    return emit(ew.ShiftLeftOp, as_value(input, node.dtype()), as_value(other, node.dtype()))


@imports("aten.bitwise_right_shift.Tensor", "aten.__rshift__.Scalar", "aten.__rshift__.Tensor")
def shift_right(node: AtenNode, input: Any, other: Any) -> ir.Value:
    """x >> y, the sign kept"""
    return emit(ew.ShiftRightOp, as_value(input, node.dtype()), as_value(other, node.dtype()))
