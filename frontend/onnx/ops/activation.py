"""Activation functions: those in the dialect, and those composed of several of its ops."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.stepwell.reduction import ArgmaxOp
from ....dialects.types import is_float
from ...build import (
    cast,
    dtype,
    emit,
    flattened,
    known_dim,
    normal_axis,
    numbered,
    rank,
    reshaped,
    scalar,
    shape,
    shape_of,
)
from ..nodes.node import Node
from ..nodes.registry import OnnxHandler, imports

_PLAIN: dict[str, type[Op]] = {
    "HardSwish": ew.HardSwishOp,
    "Relu": ew.ReluOp,
    "Sigmoid": ew.SigmoidOp,
    "Softplus": ew.SoftplusOp,
}


def _plain(op: type[Op]) -> OnnxHandler:
    return lambda node, input: emit(op, input)


for _name, _op in _PLAIN.items():
    imports(_name)(_plain(_op))


@imports("Gelu")
def gelu(node: Node, input: ir.Value) -> ir.Value:
    """Gelu."""
    return emit(ew.GeluOp, input, approximate=node.attribute("approximate"))


@imports("HardSigmoid")
def hard_sigmoid(node: Node, input: ir.Value) -> ir.Value:
    """HardSigmoid."""
    return emit(ew.HardSigmoidOp, input, alpha=node.attribute("alpha"), beta=node.attribute("beta"))


@imports("LeakyRelu")
def leaky_relu(node: Node, input: ir.Value) -> ir.Value:
    """LeakyRelu."""
    return emit(ew.LeakyReluOp, input, alpha=node.attribute("alpha"))


@imports("Elu")
def elu(node: Node, input: ir.Value) -> ir.Value:
    """Elu."""
    return emit(ew.EluOp, input, alpha=node.attribute("alpha"))


@imports("Selu")
def selu(node: Node, input: ir.Value) -> ir.Value:
    """Selu: gamma * elu(x, alpha)."""
    return emit(ew.MulOp, emit(ew.EluOp, input, alpha=node.attribute("alpha")), scalar(node.attribute("gamma"), input))


@imports("Celu")
def celu(node: Node, input: ir.Value) -> ir.Value:
    """Celu: alpha * elu(x / alpha, 1)."""
    alpha = scalar(node.attribute("alpha"), input)
    return emit(ew.MulOp, emit(ew.EluOp, emit(ew.DivOp, input, alpha)), alpha)


@imports("Softsign")
def softsign(node: Node, input: ir.Value) -> ir.Value:
    """Softsign: x / (1 + |x|)."""
    return emit(ew.DivOp, input, emit(ew.AddOp, emit(ew.AbsOp, input), scalar(1, input)))


@imports("Mish")
def mish(node: Node, input: ir.Value) -> ir.Value:
    """Mish: x * tanh(softplus(x))."""
    return emit(ew.MulOp, input, emit(ew.TanhOp, emit(ew.SoftplusOp, input)))


@imports("Swish")
def swish(node: Node, input: ir.Value) -> ir.Value:
    """Swish: x * sigmoid(alpha * x)."""
    alpha = node.attribute("alpha")
    if alpha == 1:
        return emit(ew.SiluOp, input)
    return emit(ew.MulOp, input, emit(ew.SigmoidOp, emit(ew.MulOp, input, scalar(alpha, input))))


@imports("ThresholdedRelu")
def thresholded_relu(node: Node, input: ir.Value) -> ir.Value:
    """ThresholdedRelu: x if it is greater than alpha, else 0."""
    condition = emit(ew.GreaterOp, input, scalar(node.attribute("alpha"), input))
    return emit(ew.SelectOp, condition, input, scalar(0, input))


@imports("PRelu")
def parametric_relu(node: Node, input: ir.Value, slope: ir.Value) -> ir.Value:
    """PRelu: x if it is not negative, else slope * x.

    If a list of slopes does not broadcast, as older exporters write it, it holds one slope per channel.
    """
    dims, slopes = shape(input), shape(slope)
    if len(slopes) == 1 and len(dims) > 2 and slopes[0] not in (1, dims[-1]) and slopes[0] == dims[1]:
        slope = emit(ExpandDimsOp, slope, axes=tuple(range(1, len(dims) - 1)))
    return emit(ew.SelectOp, emit(ew.LessOp, input, scalar(0, input)), emit(ew.MulOp, slope, input), input)


@imports("Hardmax")
def flattened_hardmax(node: Node, input: ir.Value) -> ir.Value:
    """Hardmax of opset 1: over all dimensions from `axis` on, merged into one."""
    start = node.attribute("axis")
    start = start if start == rank(input) else normal_axis(start, rank(input))
    return reshaped(_is_first_greatest(flattened(input, start), 1), shape_of(input))


@imports("Hardmax", since=13)
def hardmax(node: Node, input: ir.Value) -> ir.Value:
    """Hardmax of opset 13: along one dimension."""
    return _is_first_greatest(input, normal_axis(node.attribute("axis"), rank(input)))


def _is_first_greatest(input: ir.Value, axis: int) -> ir.Value:
    """1 at the first of the greatest elements along an axis, 0 elsewhere."""
    count = known_dim(input, axis, "the extent of the axis")
    greatest = emit(ArgmaxOp, input, axis=axis)
    found = emit(ew.EqualOp, greatest, numbered(count, axis, rank(input)))
    return cast(found, dtype(input))


@imports("Shrink")
def shrink(node: Node, input: ir.Value) -> ir.Value:
    """Shrink: x + bias below -lambd, x - bias above lambd, else 0."""
    bias, limit = scalar(node.attribute("bias"), input), scalar(node.attribute("lambd"), input)
    above = emit(ew.SelectOp, emit(ew.GreaterOp, input, limit), emit(ew.SubOp, input, bias), scalar(0, input))
    return emit(ew.SelectOp, emit(ew.LessOp, input, emit(ew.NegOp, limit)), emit(ew.AddOp, input, bias), above)


@imports("Clip")
def clip_by_attributes(node: Node, input: ir.Value) -> ir.Value:
    """Clip with bounds as attributes (opset 6)."""
    return emit(ew.ClipOp, input, minimum=node.attribute("min", -np.inf), maximum=node.attribute("max", np.inf))


@imports("Clip", since=11)
def clip(node: Node, input: ir.Value, low: ir.Value | None = None, high: ir.Value | None = None) -> ir.Value:
    """Clip with bounds as inputs (opset 11), which may be computed by the model."""
    bounds = [node.known(low), node.known(high)]
    if (low is not None and bounds[0] is None) or (high is not None and bounds[1] is None) or _is_wide_integer(input):
        limited = input if low is None else emit(ew.MaximumOp, input, low)
        return limited if high is None else emit(ew.MinimumOp, limited, high)
    minimum, maximum = (
        absent if bound is None else float(bound.item())
        for bound, absent in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    return emit(ew.ClipOp, input, minimum=minimum, maximum=maximum)


def _is_wide_integer(value: ir.Value) -> bool:
    """Returns whether a float64 attribute could round the bounds of the value's type."""
    return not is_float(dtype(value)) and dtype(value).itemsize > 4


@imports("BiasGelu", domain="com.microsoft")
def bias_gelu(node: Node, input: ir.Value, bias: ir.Value) -> ir.Value:
    """BiasGelu of ONNX Runtime: gelu(x + bias)."""
    return emit(ew.GeluOp, emit(ew.AddOp, input, bias))


@imports("Gelu", domain="com.microsoft")
def microsoft_gelu(node: Node, input: ir.Value) -> ir.Value:
    """Gelu of ONNX Runtime, older than ONNX's own."""
    return emit(ew.GeluOp, input)


@imports("FastGelu", domain="com.microsoft")
def fast_gelu(node: Node, input: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """FastGelu of ONNX Runtime: the tanh approximation of gelu(x + bias)."""
    return emit(ew.GeluOp, input if bias is None else emit(ew.AddOp, input, bias), approximate="tanh")


@imports("QuickGelu", domain="com.microsoft")
def quick_gelu(node: Node, input: ir.Value) -> ir.Value:
    """QuickGelu of ONNX Runtime: x * sigmoid(alpha * x)."""
    alpha = scalar(node.attribute("alpha", 1.702), input)
    return emit(ew.MulOp, input, emit(ew.SigmoidOp, emit(ew.MulOp, input, alpha)))
