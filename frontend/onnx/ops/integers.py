"""Products of quantised numbers: matrix products and convolutions of integers, summed up in 32 bits."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.movement import ExpandDimsOp, PadOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ..build import cast, constant, dtype, emit, rank, scalar, shape
from ..node import Node
from ..registry import imports
from ..windows import pads_of, window_of
from .contraction import kernel_of, product
from .quantization import per_channel, requantized

_F32, _I32 = np.dtype(np.float32), np.dtype(np.int32)
Value = ir.Value


@imports("MatMulInteger")
def matmul_integer(node: Node, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None) -> Value:
    """MatMulInteger: the product of what is beyond the zero points."""
    return _product(node, a, _per_row(a_zero, a), b, b_zero)


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
    total = _product(node, a, _per_row(a_zero, a), b, b_zero)
    return _rescaled(total, _per_row(a_scale, a), b_scale, scale, zero)


@imports("ConvInteger")
def conv_integer(
    node: Node, input: Value, weight: Value, zero: Value | None = None, weight_zero: Value | None = None
) -> Value:
    """ConvInteger: the convolution of what is beyond the zero points; the padding is at the zero point."""
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


def _product(node: Node, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None) -> Value:
    """The matrix product of what is beyond the zero points.

    That by a stored matrix is one of bytes, from which what the zero points add is taken away:
    sum (a - p) (b - q) = sum a b - p (sum b - K q) - q sum a
    """
    if node.known(b) is None or rank(b) != 2 or rank(a) < 2 or not isinstance(shape(a)[-1], int):
        return product(_beyond(a, a_zero), _beyond(b, b_zero))
    left, p = _unsigned(a, a_zero)
    right, q = _signed(b, b_zero)
    total = emit(MatmulOp, left, right)
    if not _is_neutral(node, a, a_zero, np.uint8):
        sums = emit(ReduceSumOp, cast(right, _I32), axes=(0,), keepdims=False)
        sums = emit(ew.SubOp, sums, emit(ew.MulOp, q, scalar(shape(right)[0], q)))
        total = emit(ew.SubOp, total, emit(ew.MulOp, p, sums))
    if not _is_neutral(node, b, b_zero, np.int8):
        sums = emit(ReduceSumOp, cast(left, _I32), axes=(rank(left) - 1,), keepdims=True)
        total = emit(ew.SubOp, total, emit(ew.MulOp, q, sums))
    return total


def _convolution(
    node: Node, input: Value, zero: Value | None, weight: Value, weight_zero: Value | None, bias: Value | None
) -> Value:
    """The convolution of what is beyond the zero points.

    That with a stored weight whose zero point is 0 is one of bytes, the padding being at the input's zero point; what
    the zero point adds to each sum is the same everywhere, and so part of the bias.
    """
    window, group = window_of(node, input, kernel_of(node, weight)), node.attribute("group")
    pads, spatial = pads_of(node, input, window), rank(input) - 2
    attributes = {"strides": window.strides, "dilations": window.dilations, "group": group}
    (right, _), (left, p) = _signed(weight, None), _unsigned(input, zero)
    start, is_symmetric = node.known(p), _is_neutral(node, weight, weight_zero, np.int8)
    if node.known(weight) is None or not is_symmetric or (any(pads) and (start is None or start.size != 1)):
        spread = None if weight_zero is None else per_channel(weight_zero, rank(weight) - 1)
        return emit(ConvOp, _beyond(input, zero), _beyond(weight, spread), bias, pads=pads, **attributes)
    if any(pads):
        assert start is not None
        low, high = (0, 0, *pads[:spatial]), (0, 0, *pads[spatial:])
        left = emit(PadOp, left, low=low, high=high, value=float(start.item()))
    if not _is_neutral(node, input, zero, np.uint8):
        sums = emit(ReduceSumOp, cast(right, _I32), axes=tuple(range(1, rank(weight))), keepdims=False)
        taken = emit(ew.NegOp, emit(ew.MulOp, p, sums))
        bias = taken if bias is None else emit(ew.AddOp, bias, taken)
    return emit(ConvOp, left, right, bias, pads=(0,) * (2 * spatial), **attributes)


def _unsigned(value: Value, zero: Value | None) -> tuple[Value, Value]:
    """Bytes as ui8, and their zero point in 32 bits: those with a sign are moved up by 128."""
    start = constant(np.array(0, _I32)) if zero is None else cast(zero, _I32)
    if dtype(value) == np.uint8:
        return value, start
    return _flipped(value, np.uint8), emit(ew.AddOp, start, scalar(128, start))


def _signed(value: Value, zero: Value | None) -> tuple[Value, Value]:
    """Bytes as i8, and their zero point in 32 bits: those without a sign are moved down by 128."""
    start = constant(np.array(0, _I32)) if zero is None else cast(zero, _I32)
    if dtype(value) == np.int8:
        return value, start
    return _flipped(value, np.int8), emit(ew.SubOp, start, scalar(128, start))


def _flipped(value: Value, kind: type) -> Value:
    """Bytes moved by 128, to the type of the other sign: their highest bit is another one."""
    bit = constant(np.array(128, np.uint8).view(dtype(value)))
    return emit(ew.BitcastOp, emit(ew.XorOp, value, bit), dtype=np.dtype(kind))


def _is_neutral(node: Node, value: Value, zero: Value | None, wanted: type) -> bool:
    """Whether the zero point of bytes is known to be 0 once they are of the type `wanted`."""
    contents = np.zeros((), dtype(value)) if zero is None else node.known(zero)
    neutral = 0 if dtype(value) == wanted else 128 if dtype(value) == np.uint8 else -128
    return contents is not None and bool((contents == neutral).all())


def _beyond(value: Value, zero: Value | None) -> Value:
    """`value - zero` in 32 bits."""
    wide = cast(value, _I32)
    return wide if zero is None else emit(ew.SubOp, wide, cast(zero, _I32))


def _per_row(values: Value | None, matrix: Value) -> Value | None:
    """Scales or zero points of the rows of a matrix, as a column."""
    if values is None or rank(values) != 1 or shape(values) == (1,) or rank(matrix) < 2:
        return values
    return emit(ExpandDimsOp, values, axes=(1,))


def _rescaled(total: Value, left: Value | None, right: Value, scale: Value, zero: Value) -> Value:
    """A sum of products of two scales as integers of a third."""
    assert left is not None
    factor = emit(ew.DivOp, emit(ew.MulOp, cast(left, _F32), cast(right, _F32)), cast(scale, _F32))
    return requantized(emit(ew.MulOp, cast(total, _F32), factor), zero, dtype(zero))
