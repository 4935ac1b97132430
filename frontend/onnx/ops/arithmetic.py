"""Arithmetic, element by element."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.types import is_float
from ..build import cast, chained, dtype, emit, scalar
from ..node import Node
from ..registry import Handler, imports

_UNARY: dict[str, type[Op]] = {
    "Abs": ew.AbsOp,
    "Ceil": ew.CeilOp,
    "Cos": ew.CosOp,
    "Erf": ew.ErfOp,
    "Exp": ew.ExpOp,
    "Floor": ew.FloorOp,
    "Log": ew.LogOp,
    "Neg": ew.NegOp,
    "Reciprocal": ew.ReciprocalOp,
    "Round": ew.RoundOp,
    "Sign": ew.SignOp,
    "Sin": ew.SinOp,
    "Sqrt": ew.SqrtOp,
    "Tanh": ew.TanhOp,
}
_BINARY: dict[str, type[Op]] = {"Add": ew.AddOp, "Sub": ew.SubOp, "Mul": ew.MulOp, "Div": ew.DivOp}
_VARIADIC: dict[str, type[Op]] = {"Max": ew.MaximumOp, "Min": ew.MinimumOp, "Sum": ew.AddOp}


def _unary(op: type[Op]) -> Handler:
    return lambda node, input: emit(op, input)


def _binary(op: type[Op]) -> Handler:
    return lambda node, lhs, rhs: emit(op, lhs, rhs)


def _variadic(op: type[Op]) -> Handler:
    return lambda node, *inputs: chained(op, inputs)


for _name, _op in _UNARY.items():
    imports(_name)(_unary(_op))
for _name, _op in _BINARY.items():
    imports(_name)(_binary(_op))
for _name, _op in _VARIADIC.items():
    imports(_name)(_variadic(_op))


@imports("Mean")
def mean(node: Node, *inputs: ir.Value) -> ir.Value:
    """Mean of any number of tensors: their sum, divided."""
    return emit(ew.DivOp, chained(ew.AddOp, inputs), scalar(len(inputs), inputs[0]))


@imports("Pow")
def power(node: Node, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """Pow; an integer base with a fractional exponent is computed in floating point."""
    kind = dtype(base)
    if is_float(dtype(exponent)) and not is_float(kind):
        return cast(emit(ew.PowOp, cast(base, np.float64), cast(exponent, np.float64)), kind)
    return emit(ew.PowOp, base, cast(exponent, kind))


@imports("Mod")
def modulo(node: Node, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """Mod; the result has the sign of the dividend with `fmod`, that of the divisor without.

    `stepwell.mod` is the former of floats and the latter of integers; the others follow from it.
    """
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


@imports("Tan")
def tangent(node: Node, input: ir.Value) -> ir.Value:
    """Tan: sin(x) / cos(x)."""
    return emit(ew.DivOp, emit(ew.SinOp, input), emit(ew.CosOp, input))


@imports("Sinh", "Cosh")
def hyperbolic(node: Node, input: ir.Value) -> ir.Value:
    """Sinh and Cosh: (exp(x) -+ exp(-x)) / 2."""
    op = ew.SubOp if node.op_type == "Sinh" else ew.AddOp
    both = emit(op, emit(ew.ExpOp, input), emit(ew.ExpOp, emit(ew.NegOp, input)))
    return emit(ew.DivOp, both, scalar(2, input))


@imports("CastLike")
def cast_like(node: Node, input: ir.Value, target: ir.Value) -> ir.Value:
    """CastLike: a cast to the second input's element type."""
    return cast(input, dtype(target))


@imports("Cast")
def cast_to(node: Node, input: ir.Value) -> ir.Value:
    """Cast."""
    kind = node.dtype("to")
    assert kind is not None
    return cast(input, kind)
