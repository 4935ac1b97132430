"""Functions of one tensor, element by element."""

from __future__ import annotations

import math
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

_FLOAT_FUNCTIONS: dict[str, type[Op]] = {
    "acos": ew.AcosOp,
    "acosh": ew.AcoshOp,
    "asin": ew.AsinOp,
    "asinh": ew.AsinhOp,
    "atan": ew.AtanOp,
    "atanh": ew.AtanhOp,
    "cos": ew.CosOp,
    "cosh": ew.CoshOp,
    "erf": ew.ErfOp,
    "exp": ew.ExpOp,
    "log": ew.LogOp,
    "reciprocal": ew.ReciprocalOp,
    "rsqrt": ew.RsqrtOp,
    "sigmoid": ew.SigmoidOp,
    "silu": ew.SiluOp,
    "sin": ew.SinOp,
    "sinh": ew.SinhOp,
    "sqrt": ew.SqrtOp,
    "tan": ew.TanOp,
    "tanh": ew.TanhOp,
}
"""Functions whose result is floating point; integers are converted first."""

_ROUNDINGS: dict[str, type[Op]] = {"ceil": ew.CeilOp, "floor": ew.FloorOp, "round": ew.RoundOp}
_SIGNED: dict[str, type[Op]] = {"abs": ew.AbsOp, "neg": ew.NegOp}


def _in_result_type(op: type[Op]) -> AtenHandler:
    return lambda node, input: emit(op, cast(input, node.dtype()))


def _unless_integer(op: type[Op]) -> AtenHandler:
    return lambda node, input: emit(op, input) if is_float(dtype(input)) else input


for _name, _op in (_FLOAT_FUNCTIONS | _SIGNED).items():
    imports(f"aten.{_name}.default", f"prims.{_name}.default")(_in_result_type(_op))
for _name, _op in _ROUNDINGS.items():
    imports(f"aten.{_name}.default", f"prims.{_name}.default")(_unless_integer(_op))


@imports("aten.trunc.default")
def trunc(node: AtenNode, input: ir.Value) -> ir.Value:
    """Rounds towards zero."""
    if not is_float(dtype(input)):
        return input
    return truncated(input)


def truncated(value: ir.Value) -> ir.Value:
    """Rounds a float towards zero."""
    is_negative = emit(ew.LessOp, value, scalar(0, value))
    return emit(ew.SelectOp, is_negative, emit(ew.CeilOp, value), emit(ew.FloorOp, value))


@imports("aten.relu.default")
def relu(node: AtenNode, input: ir.Value) -> ir.Value:
    """max(x, 0)"""
    return emit(ew.ReluOp, input) if is_float(dtype(input)) else emit(ew.MaximumOp, input, scalar(0, input))


@imports("aten.sign.default")
def sign(node: AtenNode, input: ir.Value) -> ir.Value:
    """-1, 0 or 1; 0 for NaN."""
    if dtype(input).kind == "b":
        return input
    made = emit(ew.SignOp, input)
    if not is_float(dtype(input)):
        return made
    return emit(ew.SelectOp, emit(ew.EqualOp, input, input), made, scalar(0, input))


@imports("aten.log2.default", "aten.log10.default")
def log_to_base(node: AtenNode, input: ir.Value) -> ir.Value:
    """log(x) / log(base)"""
    base = 2 if "log2" in node.overload else 10
    logarithm = emit(ew.LogOp, cast(input, node.dtype()))
    return emit(ew.MulOp, logarithm, scalar(1 / math.log(base), logarithm))


@imports("aten.exp2.default", "prims.exp2.default")
def exp2(node: AtenNode, input: ir.Value) -> ir.Value:
    """2 ** x"""
    value = cast(input, node.dtype())
    return emit(ew.PowOp, scalar(2, value), value)


@imports("aten.log1p.default")
def log1p(node: AtenNode, input: ir.Value) -> ir.Value:
    """log(1 + x), accurate near 0: log(u) * x / (u - 1) for u = 1 + x, as u - 1 has the error that log(u) has."""
    x = cast(input, node.dtype())
    one = scalar(1, x)
    u = emit(ew.AddOp, x, one)
    corrected = emit(ew.MulOp, emit(ew.LogOp, u), emit(ew.DivOp, x, emit(ew.SubOp, u, one)))
    is_exact = emit(ew.OrOp, emit(ew.EqualOp, u, one), emit(ew.EqualOp, u, scalar(np.inf, u)))
    return emit(ew.SelectOp, is_exact, x, corrected)


@imports("aten.expm1.default")
def expm1(node: AtenNode, input: ir.Value) -> ir.Value:
    """exp(x) - 1, accurate near 0: (u - 1) * x / log(u) for u = exp(x)."""
    x = cast(input, node.dtype())
    one = scalar(1, x)
    u = emit(ew.ExpOp, x)
    less = emit(ew.SubOp, u, one)
    corrected = emit(ew.MulOp, less, emit(ew.DivOp, x, emit(ew.LogOp, u)))
    is_far = emit(ew.GreaterOp, emit(ew.AbsOp, x), one)
    return emit(ew.SelectOp, emit(ew.EqualOp, u, one), x, emit(ew.SelectOp, is_far, less, corrected))


@imports("aten.isnan.default")
def is_nan(node: AtenNode, input: ir.Value) -> ir.Value:
    """True for the only values that differ from themselves."""
    return emit(ew.NotOp, emit(ew.EqualOp, input, input))


@imports("aten.isinf.default")
def is_infinite(node: AtenNode, input: ir.Value) -> ir.Value:
    """True for both infinities; never for integers."""
    if not is_float(dtype(input)):
        return cast(emit(ew.MulOp, cast(input, np.int8), constant(np.array(0, np.int8))), np.bool_)
    return emit(ew.EqualOp, emit(ew.AbsOp, input), scalar(np.inf, input))


@imports("aten.gelu.default")
def gelu(node: AtenNode, input: ir.Value, approximate: str) -> ir.Value:
    """Gelu."""
    return emit(ew.GeluOp, input, approximate=approximate)


@imports("aten.hardswish.default")
def hard_swish(node: AtenNode, input: ir.Value) -> ir.Value:
    """x * max(0, min(1, x / 6 + 1 / 2))"""
    return emit(ew.HardSwishOp, input)


@imports("aten.hardsigmoid.default")
def hard_sigmoid(node: AtenNode, input: ir.Value) -> ir.Value:
    """max(0, min(1, x / 6 + 1 / 2))"""
    return emit(ew.HardSigmoidOp, input, alpha=1 / 6, beta=0.5)


@imports("aten.leaky_relu.default")
def leaky_relu(node: AtenNode, input: ir.Value, negative_slope: float) -> ir.Value:
    """x if positive, else slope * x"""
    return emit(ew.LeakyReluOp, input, alpha=float(negative_slope))


@imports("aten.elu.default")
def elu(node: AtenNode, input: ir.Value, alpha: float, scale: float, input_scale: float) -> ir.Value:
    """scale * x if positive, else scale * alpha * (exp(input_scale * x) - 1)"""
    if input_scale == 1:
        made = emit(ew.EluOp, input, alpha=float(alpha))
    else:
        inner = emit(ew.EluOp, emit(ew.MulOp, input, scalar(input_scale, input)), alpha=float(alpha))
        made = emit(ew.SelectOp, emit(ew.GreaterOp, input, scalar(0, input)), input, inner)
    return made if scale == 1 else emit(ew.MulOp, made, scalar(scale, made))


@imports("aten.softplus.default")
def softplus(node: AtenNode, input: ir.Value, beta: float, threshold: float) -> ir.Value:
    """log(1 + exp(beta * x)) / beta, and x where beta * x exceeds the threshold"""
    scaled = input if beta == 1 else emit(ew.MulOp, input, scalar(beta, input))
    made = emit(ew.SoftplusOp, scaled)
    made = made if beta == 1 else emit(ew.DivOp, made, scalar(beta, made))
    return emit(ew.SelectOp, emit(ew.GreaterOp, scaled, scalar(threshold, scaled)), input, made)


@imports("aten.clamp.default")
def clamp(node: AtenNode, input: ir.Value, min: Any, max: Any) -> ir.Value:
    """min(max(x, low), high) in the type to which numbers and tensor are converted"""
    return _clamped(cast(input, node.dtype()), min, max)


@imports("aten.hardtanh.default")
def hard_tanh(node: AtenNode, input: ir.Value, min_val: float, max_val: float) -> ir.Value:
    """min(max(x, low), high)"""
    return _clamped(input, min_val, max_val)


def _clamped(value: ir.Value, low: Any, high: Any) -> ir.Value:
    if is_float(dtype(value)) and not isinstance(low, ir.Value) and not isinstance(high, ir.Value):
        bounds = {"minimum": -np.inf if low is None else float(low), "maximum": np.inf if high is None else float(high)}
        if not any(map(math.isnan, bounds.values())):
            return emit(ew.ClipOp, value, **bounds)
    value = value if low is None else emit(ew.MaximumOp, value, like(low, value))
    return value if high is None else emit(ew.MinimumOp, value, like(high, value))


@imports("aten.logical_not.default")
def logical_not(node: AtenNode, input: ir.Value) -> ir.Value:
    """x == 0"""
    return emit(ew.NotOp, cast(input, np.bool_))


@imports("aten.bitwise_not.default")
def bitwise_not(node: AtenNode, input: ir.Value) -> ir.Value:
    """Negation of every bit."""
    return emit(ew.NotOp, input)


@imports("aten._to_copy.default", "prims.convert_element_type.default")
def to_copy(node: AtenNode, input: ir.Value) -> ir.Value:
    """Conversion to another element type."""
    return cast(input, node.dtype())


@imports(
    "aten.alias.default",
    "aten.clone.default",
    "aten.detach.default",
    "aten.detach_copy.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
)
def same(node: AtenNode, input: ir.Value) -> ir.Value:
    """The value itself: values of a module never change."""
    return input


@imports("prims.copy_strided.default")
def laid_out(node: AtenNode, input: ir.Value, stride: Any) -> ir.Value:
    """The value itself, whose strides only matter for results of pieces."""
    return input
