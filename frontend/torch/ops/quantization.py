"""Quantisation and dequantisation as torchao's and torch's exported models write it (`quantized_decomposed`)."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceMinOp
from ...build import cast, constant, emit, rank, reshaped, scalar
from ..node import AtenNode, axis_of
from ..registry import imports

_F32, _I32 = np.dtype(np.float32), np.dtype(np.int32)
_LIBRARY = "quantized_decomposed"
Value = ir.Value


@imports(f"{_LIBRARY}.quantize_per_tensor.default", f"{_LIBRARY}.quantize_per_tensor.tensor")
def quantize_per_tensor(
    node: AtenNode, input: Value, scale: Value | float, zero_point: Value | int, quant_min: int, quant_max: int
) -> Value:
    """clip(round(input * (1 / scale)) + zero_point)"""
    # As torch does, which divides in float64.
    inverse = _inverse(scale) if isinstance(scale, ir.Value) else constant(np.array(1 / scale, _F32))
    return _quantized(node, input, inverse, _single(zero_point, _I32), quant_min, quant_max)


@imports(f"{_LIBRARY}.quantize_per_channel.default")
def quantize_per_channel(
    node: AtenNode, input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """The same, with a scale and a zero point for each index along an axis."""
    inverse = _inverse(_along(input, scales, axis))
    return _quantized(node, input, inverse, _along(input, zero_points, axis), quant_min, quant_max)


@imports(f"{_LIBRARY}.quantize_per_token.default")
def quantize_per_token(
    node: AtenNode, input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int
) -> Value:
    """The same, with a scale and a zero point for each row, which broadcast with the input."""
    return _quantized(node, input, _inverse(scales), zero_points, quant_min, quant_max)


@imports(f"{_LIBRARY}.dequantize_per_tensor.default", f"{_LIBRARY}.dequantize_per_tensor.tensor")
def dequantize_per_tensor(
    node: AtenNode,
    input: Value,
    scale: Value | float,
    zero_point: Value | int,
    quant_min: int | None,
    quant_max: int | None,
    out_dtype: np.dtype | None,
) -> Value:
    """(input - zero_point) * scale"""
    return _dequantized(node, input, _single(scale, _F32), _single(zero_point, _I32))


@imports(f"{_LIBRARY}.dequantize_per_channel.default")
def dequantize_per_channel(
    node: AtenNode,
    input: Value,
    scales: Value,
    zero_points: Value | None,
    axis: int,
    quant_min: int | None,
    quant_max: int | None,
    out_dtype: np.dtype | None,
) -> Value:
    """The same, with a scale and a zero point for each index along an axis."""
    zeros = None if zero_points is None else _along(input, zero_points, axis)
    return _dequantized(node, input, _along(input, scales, axis), zeros)


@imports(f"{_LIBRARY}.dequantize_per_token.default")
def dequantize_per_token(
    node: AtenNode,
    input: Value,
    scales: Value,
    zero_points: Value,
    quant_min: int,
    quant_max: int,
    output_dtype: np.dtype,
) -> Value:
    """The same, with a scale and a zero point for each row, which broadcast with the input."""
    return _dequantized(node, input, scales, zero_points)


@imports(f"{_LIBRARY}.choose_qparams.tensor")
def choose_scale(node: AtenNode, input: Value, quant_min: int, quant_max: int, eps: float) -> tuple[Value | None, ...]:
    """The scale and zero point for the range of a tensor's numbers, which includes 0."""
    axes, zero = tuple(range(rank(input))), scalar(0, input)
    low = emit(ew.MinimumOp, emit(ReduceMinOp, input, axes=axes, keepdims=False), zero)
    high = emit(ew.MaximumOp, emit(ReduceMaxOp, input, axes=axes, keepdims=False), zero)
    extent = emit(ew.DivOp, emit(ew.SubOp, high, low), scalar(float(quant_max - quant_min), input))
    scale = emit(ew.MaximumOp, extent, scalar(eps, extent))
    start = emit(ew.SubOp, scalar(quant_min, scale), emit(ew.RoundOp, emit(ew.DivOp, low, scale)))
    zero_point = emit(ew.ClipOp, start, minimum=float(quant_min), maximum=float(quant_max))
    return tuple(
        reshaped(cast(value, node.dtype(index)), node.shape(index)) for index, value in enumerate((scale, zero_point))
    )


def _inverse(scale: Value) -> Value:
    wide = cast(scale, _F32)
    return emit(ew.DivOp, scalar(1, wide), wide)


def _quantized(node: AtenNode, input: Value, inverse: Value, zero: Value, least: int, most: int) -> Value:
    rounded = emit(ew.RoundOp, emit(ew.MulOp, cast(input, _F32), inverse))
    numbers = emit(ew.AddOp, rounded, cast(zero, _F32))
    return cast(emit(ew.ClipOp, numbers, minimum=float(least), maximum=float(most)), node.dtype())


def _dequantized(node: AtenNode, input: Value, scale: Value, zero: Value | None) -> Value:
    numbers = cast(input, _I32)
    if zero is not None:
        numbers = emit(ew.SubOp, numbers, cast(zero, _I32))
    return cast(emit(ew.MulOp, cast(numbers, _F32), cast(scale, _F32)), node.dtype())


def _single(value: Value | float, kind: np.dtype) -> Value:
    return value if isinstance(value, ir.Value) else constant(np.array(value, kind))


def _along(input: Value, values: Value, axis: int) -> Value:
    """One value for each index along an axis, in a shape that broadcasts with the input."""
    trailing = rank(input) - 1 - axis_of(input, axis)
    return emit(ExpandDimsOp, values, axes=tuple(range(1, trailing + 1))) if trailing else values
