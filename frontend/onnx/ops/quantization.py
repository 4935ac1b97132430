"""Linear quantisation, as arithmetic on the integers and their scales."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp
from ...errors import UnsupportedError
from ..build import cast, dtype, emit, normal_axis, rank
from ..node import Node
from ..registry import imports


@imports("DequantizeLinear")
def dequantize(node: Node, input: ir.Value, scale: ir.Value, zero_point: ir.Value | None = None) -> ir.Value:
    """DequantizeLinear: (x - zero_point) * scale, per tensor or per channel."""
    scale = _along_axis(node, input, scale)
    wide = cast(input, np.int32)
    if zero_point is not None:
        wide = emit(ew.SubOp, wide, cast(_along_axis(node, input, zero_point), np.int32))
    return emit(ew.MulOp, cast(wide, dtype(scale)), scale)


@imports("QuantizeLinear")
def quantize(node: Node, input: ir.Value, scale: ir.Value, zero_point: ir.Value | None = None) -> ir.Value:
    """QuantizeLinear: round(x / scale) + zero_point, limited to what the integers hold."""
    kind = np.dtype(np.uint8) if zero_point is None else dtype(zero_point)
    if zero_point is None and node.attribute("output_dtype", 0):
        kind = node.dtype("output_dtype")
    if kind is None or kind.kind not in "iu":
        raise UnsupportedError(f"quantises to {kind}, but only integers are supported")
    rounded = emit(ew.RoundOp, emit(ew.DivOp, cast(input, dtype(scale)), _along_axis(node, input, scale)))
    if zero_point is not None:
        rounded = emit(ew.AddOp, rounded, cast(_along_axis(node, input, zero_point), dtype(rounded)))
    limits = np.iinfo(kind)
    return cast(emit(ew.ClipOp, rounded, minimum=float(limits.min), maximum=float(limits.max)), kind)


def _along_axis(node: Node, input: ir.Value, values: ir.Value) -> ir.Value:
    """One value per channel, shaped so that it broadcasts along the channels' axis; a scalar as it is."""
    if node.attribute("block_size", 0):
        raise UnsupportedError("quantises in blocks, which is not supported")
    if rank(values) == 0 or rank(input) == 0:
        return values
    trailing = rank(input) - 1 - normal_axis(node.attribute("axis", 1), rank(input))
    return emit(ExpandDimsOp, values, axes=tuple(range(1, trailing + 1))) if trailing else values
