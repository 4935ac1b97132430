"""Products of quantised numbers: matrix products and convolutions of integers, summed in i32."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.contraction import ConvOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ...build import cast, dtype, emit, multiplied, rank, shape
from ..nodes.node import Node
from ..nodes.registry import imports
from .contraction import kernel_of
from .parts.windows import pads_of, window_of
from .quantization import per_channel, requantized

_F32, _I32 = np.dtype(np.float32), np.dtype(np.int32)
Value = ir.Value


@imports("MatMulInteger")
def matmul_integer(node: Node, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None) -> Value:
    """MatMulInteger: the product of both operands minus their zero points."""
    return _product(a, _per_row(a_zero, a), b, b_zero)


@imports("QLinearMatMul")
def qlinear_matmul(
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    """QLinearMatMul: the product of two quantised tensors, quantised."""
    total = _product(a, _per_row(a_zero, a), b, b_zero)
    return _rescaled(total, _per_row(a_scale, a), b_scale, scale, zero)


@imports("ConvInteger")
def conv_integer(
    node: Node, input: Value, weight: Value, zero: Value | None = None, weight_zero: Value | None = None
) -> Value:
    """ConvInteger: the convolution of both operands minus their zero points; the padding has the input's zero point."""
    return _convolution(node, input, zero, weight, weight_zero, None)


@imports("QLinearConv")
def qlinear_conv(
    node: Node,
    input: Value,
    input_scale: Value,
    input_zero: Value,
    weight: Value,
    weight_scale: Value,
    weight_zero: Value,
    scale: Value,
    zero: Value,
    bias: Value | None = None,
) -> Value:
    """QLinearConv: the convolution of a quantised tensor with a quantised weight, quantised."""
    total = _convolution(node, input, input_zero, weight, weight_zero, bias)
    return _rescaled(total, input_scale, per_channel(weight_scale, rank(input) - 2), scale, zero)


def _product(a: Value, a_zero: Value | None, b: Value, b_zero: Value | None) -> Value:
    """The matrix product of both operands minus their zero points."""
    return multiplied(_beyond(a, a_zero), _beyond(b, b_zero))


def _convolution(
    node: Node, input: Value, zero: Value | None, weight: Value, weight_zero: Value | None, bias: Value | None
) -> Value:
    """The convolution of both operands minus their zero points."""
    window = window_of(node, input, kernel_of(node, weight))
    pads = pads_of(node, input, window)
    spread = None if weight_zero is None else per_channel(weight_zero, rank(weight) - 1)
    attributes = {"strides": window.strides, "dilations": window.dilations, "group": node.attribute("group")}
    return emit(ConvOp, _beyond(input, zero), _beyond(weight, spread), bias, pads=pads, **attributes)


def _beyond(value: Value, zero: Value | None) -> Value:
    """`value - zero` in i32."""
    wide = cast(value, _I32)
    return wide if zero is None else emit(ew.SubOp, wide, cast(zero, _I32))


def _per_row(values: Value | None, matrix: Value) -> Value | None:
    """Scales or zero points of the rows of a matrix, as a column."""
    if values is None or rank(values) != 1 or shape(values) == (1,) or rank(matrix) < 2:
        return values
    return emit(ExpandDimsOp, values, axes=(1,))


def _rescaled(total: Value, left: Value | None, right: Value, scale: Value, zero: Value) -> Value:
    """Converts a sum of products from the operands' scales to integers of the result's scale."""
    assert left is not None
    factor = emit(ew.DivOp, emit(ew.MulOp, cast(left, _F32), cast(right, _F32)), cast(scale, _F32))
    return requantized(emit(ew.MulOp, cast(total, _F32), factor), zero, dtype(zero))
