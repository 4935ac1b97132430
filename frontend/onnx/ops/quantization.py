"""Linear quantisation, as arithmetic on the integers and their scales."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceMinOp
from ....dialects.types import is_integer
from ...build import cast, dtype, emit, gathered, known_dim, normal_axis, rank, scalar, shape
from ...errors import AttributeFault, NodeError
from ..nodes.node import Node
from ..nodes.registry import imports
from .conversion import converted

_F32, _I32 = np.dtype(np.float32), np.dtype(np.int32)


@imports("DequantizeLinear")
def dequantize(node: Node, input: ir.Value, scale: ir.Value, zero_point: ir.Value | None = None) -> ir.Value:
    """DequantizeLinear: (x - zero_point) * scale, per tensor, per channel or per block, rounded once."""
    target = node.dtype("output_dtype") if node.attribute("output_dtype", 0) else dtype(scale)
    assert target is not None
    number = input
    if zero_point is not None and is_integer(dtype(input)):
        number = emit(ew.SubOp, cast(input, _I32), cast(_spread(node, input, zero_point), _I32))
    factor = cast(_spread(node, input, scale), _F32)
    return cast(emit(ew.MulOp, cast(number, _F32), factor), target)


@imports("QuantizeLinear")
def quantize(node: Node, input: ir.Value, scale: ir.Value, zero_point: ir.Value | None = None) -> ir.Value:
    """QuantizeLinear: round(x / scale) + zero_point, saturated to the integer type; float types are only rounded."""
    kind = _quantized_dtype(node, zero_point)
    precision = node.dtype("precision") if node.attribute("precision", 0) else dtype(scale)
    assert precision is not None
    factor = _spread(node, input, scale)
    ratio = emit(ew.DivOp, cast(input, precision), cast(factor, precision))
    offset = None if zero_point is None else _spread(node, input, zero_point)
    if is_integer(kind):
        return requantized(ratio, offset, kind)
    if offset is not None and kind == np.dtype(ml_dtypes.float4_e2m1fn):
        ratio = emit(ew.AddOp, ratio, cast(offset, dtype(ratio)))
    return converted(node, ratio, kind)


def requantized(ratio: ir.Value, offset: ir.Value | None, kind: np.dtype) -> ir.Value:
    """round(ratio) + offset as saturated integers of `kind`; computed in f32, which is exact for them."""
    rounded = emit(ew.RoundOp, ratio)
    if dtype(rounded).itemsize < _F32.itemsize:
        rounded = cast(rounded, _F32)
    if offset is not None:
        rounded = emit(ew.AddOp, rounded, cast(offset, dtype(rounded)))
    limits = ml_dtypes.iinfo(kind)
    return cast(emit(ew.ClipOp, rounded, minimum=float(limits.min), maximum=float(limits.max)), kind)


def _quantized_dtype(node: Node, zero_point: ir.Value | None) -> np.dtype:
    wanted = node.dtype("output_dtype") if node.attribute("output_dtype", 0) else None
    if zero_point is None:
        return wanted or np.dtype(np.uint8)
    kind = dtype(zero_point)
    if wanted is not None and wanted != kind:
        raise AttributeFault(f"attribute 'output_dtype' is {wanted}, but the zero point is {kind}")
    return kind


@imports("DynamicQuantizeLinear")
def dynamic_quantize(node: Node, input: ir.Value) -> tuple[ir.Value, ...]:
    """DynamicQuantizeLinear: to uint8, by the range of the numbers including 0."""
    axes, zero = tuple(range(rank(input))), scalar(0, input)
    high = emit(ew.MaximumOp, emit(ReduceMaxOp, input, axes=axes, keepdims=False), zero)
    low = emit(ew.MinimumOp, emit(ReduceMinOp, input, axes=axes, keepdims=False), zero)
    extent = emit(ew.SelectOp, emit(ew.EqualOp, high, low), scalar(1, input), emit(ew.SubOp, high, low))
    scale = emit(ew.DivOp, extent, scalar(255, input))
    start = emit(ew.ClipOp, emit(ew.NegOp, emit(ew.DivOp, low, scale)), minimum=0.0, maximum=255.0)
    offset = cast(emit(ew.RoundOp, start), np.uint8)
    return requantized(emit(ew.DivOp, input, scale), offset, np.dtype(np.uint8)), scale, offset


def _spread(node: Node, input: ir.Value, values: ir.Value) -> ir.Value:
    """Reshapes scales or zero points to broadcast: per tensor, per channel of an axis, or per block along it."""
    block, along = node.attribute("block_size", 0), node.attribute("axis", 1)
    if rank(values) == 0 or rank(input) == 0:
        return values
    axis = normal_axis(along, rank(input)) if rank(input) > 1 else 0
    if block > 0 and rank(values) == rank(input):
        places = np.arange(known_dim(input, axis, "the extent of the axis that is quantised in blocks")) // block
        return gathered(values, node.table("blocks", places), axis)
    if rank(values) != 1:
        raise NodeError(f"has scales of rank {rank(values)} for an input of rank {rank(input)}")
    return values if shape(values) == (1,) else per_channel(values, rank(input) - 1 - axis)


def per_channel(values: ir.Value, trailing: int) -> ir.Value:
    """One value per channel, with `trailing` dimensions after the channels."""
    return emit(ExpandDimsOp, values, axes=tuple(range(1, trailing + 1))) if trailing and rank(values) else values
