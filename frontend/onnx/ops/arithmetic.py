"""Arithmetic, element by element."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.types import is_float
from ...build import cast, chained, dtype, emit, scalar
from ...errors import AttributeFault
from ..nodes.data_checks import check_divisor
from ..nodes.node import Node
from ..nodes.registry import OnnxHandler, imports

_UNARY: dict[str, type[Op]] = {
    "Abs": ew.AbsOp,
    "Acos": ew.AcosOp,
    "Acosh": ew.AcoshOp,
    "Asin": ew.AsinOp,
    "Asinh": ew.AsinhOp,
    "Atan": ew.AtanOp,
    "Atanh": ew.AtanhOp,
    "Ceil": ew.CeilOp,
    "Cos": ew.CosOp,
    "Cosh": ew.CoshOp,
    "Erf": ew.ErfOp,
    "Exp": ew.ExpOp,
    "Floor": ew.FloorOp,
    "Log": ew.LogOp,
    "Neg": ew.NegOp,
    "Reciprocal": ew.ReciprocalOp,
    "Round": ew.RoundOp,
    "Sign": ew.SignOp,
    "Sin": ew.SinOp,
    "Sinh": ew.SinhOp,
    "Sqrt": ew.SqrtOp,
    "Tan": ew.TanOp,
    "Tanh": ew.TanhOp,
}
_BINARY: dict[str, type[Op]] = {"Add": ew.AddOp, "Sub": ew.SubOp, "Mul": ew.MulOp}
_VARIADIC: dict[str, type[Op]] = {"Max": ew.MaximumOp, "Min": ew.MinimumOp, "Sum": ew.AddOp}


def _unary(op: type[Op]) -> OnnxHandler:
    return lambda node, input: emit(op, input)


def _binary(op: type[Op]) -> OnnxHandler:
    return lambda node, lhs, rhs: emit(op, lhs, rhs)


def _variadic(op: type[Op]) -> OnnxHandler:
    return lambda node, *inputs: chained(op, inputs)


for _name, _op in _UNARY.items():
    imports(_name)(_unary(_op))
for _name, _op in _BINARY.items():
    imports(_name)(_binary(_op))
for _name, _op in _VARIADIC.items():
    imports(_name)(_variadic(_op))


@imports("Div")
def divide(node: Node, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """Div."""
    check_divisor(node, rhs)
    return emit(ew.DivOp, lhs, rhs)


@imports("Mean")
def mean(node: Node, *inputs: ir.Value) -> ir.Value:
    """Mean of any number of tensors: their sum divided by their number."""
    return emit(ew.DivOp, chained(ew.AddOp, inputs), scalar(len(inputs), inputs[0]))


@imports("Pow")
def power(node: Node, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """Pow, computed in the more precise of the two types and returned in the base's."""
    kind, other = dtype(base), dtype(exponent)
    if is_float(kind):
        wide = other if is_float(other) and other.itemsize > kind.itemsize else kind
        return cast(emit(ew.PowOp, cast(base, wide), cast(exponent, wide)), kind)
    if is_float(other):
        return _whole_part(emit(ew.PowOp, cast(base, np.float64), cast(exponent, np.float64)), kind)
    wide = kind if other.itemsize <= kind.itemsize else other
    return cast(emit(ew.PowOp, cast(base, wide), cast(exponent, wide)), kind)


def _whole_part(power: ir.Value, kind: np.dtype) -> ir.Value:
    """Converts a power to integers: rounded if it is whole up to the error of the computation, else truncated."""
    nearest = emit(ew.RoundOp, power)
    error = emit(ew.AbsOp, emit(ew.SubOp, power, nearest))
    is_whole = emit(ew.LessEqualOp, error, emit(ew.MulOp, emit(ew.AbsOp, power), scalar(2.0**-49, power)))
    return cast(emit(ew.SelectOp, is_whole, nearest, power), kind)


@imports("Mod")
def modulo(node: Node, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """Mod: with `fmod` the result has the sign of the dividend, otherwise that of the divisor.

    `stepwell.mod` does the former on floats and the latter on integers; the other two cases are derived from it.
    """
    check_divisor(node, rhs)
    remainder, truncates = emit(ew.ModOp, lhs, rhs), bool(node.attribute("fmod"))
    if is_float(dtype(lhs)) == truncates:
        return remainder
    if truncates:
        magnitude = emit(ew.ModOp, emit(ew.AbsOp, lhs), emit(ew.AbsOp, rhs))
        return emit(ew.MulOp, emit(ew.SignOp, lhs), magnitude)
    zero = scalar(0, rhs)
    is_negative = emit(ew.LessOp, rhs, zero)
    signs_differ = emit(ew.XorOp, emit(ew.LessOp, remainder, zero), is_negative)
    moved = emit(ew.SelectOp, signs_differ, emit(ew.AddOp, remainder, rhs), remainder)
    signed_zero = emit(ew.SelectOp, is_negative, scalar(-0.0, rhs), zero)
    return emit(ew.SelectOp, emit(ew.EqualOp, remainder, zero), signed_zero, moved)


@imports("BitShift")
def bit_shift(node: Node, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """BitShift to the left or to the right."""
    direction = node.attribute("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise AttributeFault(f"attribute 'direction' is '{direction}', which is neither LEFT nor RIGHT")
    return emit(ew.ShiftLeftOp if direction == "LEFT" else ew.ShiftRightOp, lhs, rhs)
