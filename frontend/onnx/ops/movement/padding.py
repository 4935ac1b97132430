"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from .....dialects.stepwell.elementwise import AndOp, SelectOp
from .....dialects.stepwell.movement import DynamicPadOp, DynamicSliceOp
from .....dialects.stepwell.movement.padding import PAD_MODES
from ....build import constant, dtype, emit, integers, rank, reshaped, shape
from ....errors import AttributeFault
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("Pad")
def pad_by_attributes(node: Node, input: ir.Value) -> ir.Value:
    """Pad with amounts and value as attributes (opset 2)."""
    value = constant(np.array(node.attribute("value"), dtype(input)))
    return pad(node, input, integers(node.attribute("pads")), value)


@imports("Pad", since=11)
def pad(
    node: Node, input: ir.Value, pads: ir.Value, value: ir.Value | None = None, axes: ir.Value | None = None
) -> ir.Value:
    """Pad with inputs (opset 11), of some axes only (opset 18); negative amounts remove elements."""
    mode = node.attribute("mode")
    if mode not in PAD_MODES:
        raise AttributeFault(f"attribute 'mode' is '{mode}', but must be one of {', '.join(PAD_MODES)}")
    amounts = node.known(pads)
    if amounts is not None and (amounts < 0).any():
        along = range(rank(input)) if axes is None else node.integers(axes, "axes")
        input, pads = _cropped(input, amounts.tolist(), list(along)), integers(np.maximum(amounts, 0).tolist())
    fill = value if value is None or rank(value) == 0 else reshaped(value, integers([]))
    if fill is not None and mode == "constant" and node.known(fill) is None:
        padded = emit(DynamicPadOp, input, pads, None, axes)
        return emit(SelectOp, _is_inside(node, input, pads, axes), padded, fill)
    return emit(DynamicPadOp, input, pads, fill, axes, mode=mode)


def _is_inside(node: Node, input: ir.Value, pads: ir.Value, axes: ir.Value | None) -> ir.Value:
    """Mask of the elements of the padded tensor that are not padding."""
    extents = node.static(shape(input), "the extents that are padded")
    along = range(len(extents)) if axes is None else [axis % len(extents) for axis in node.integers(axes, "axes")]
    amounts = node.integers(pads, "pads")
    inside = constant(np.array(True))
    for index, axis in enumerate(along):
        low, high = amounts[index], amounts[index + len(along)]
        line = np.pad(np.ones(extents[axis], np.bool_), (low, high)).reshape(-1, *[1] * (len(extents) - 1 - axis))
        inside = emit(AndOp, inside, node.table("inside", line))
    return inside


def _cropped(input: ir.Value, amounts: Sequence[int], axes: Sequence[int]) -> ir.Value:
    """`input` without the elements that negative amounts remove."""
    starts = [max(-amount, 0) for amount in amounts[: len(axes)]]
    stops = [min(amount, 0) or np.iinfo(np.int64).max for amount in amounts[len(axes) :]]
    return emit(DynamicSliceOp, input, integers(starts), integers(stops), integers(axes))
