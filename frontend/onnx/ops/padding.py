"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell.movement import DynamicPadOp, DynamicSliceOp
from ...errors import UnsupportedError
from ..build import constant, dtype, emit, integers, rank, reshaped
from ..node import Node
from ..registry import imports

_MODES = ("constant", "reflect", "edge")


@imports("Pad")
def pad_by_attributes(node: Node, input: ir.Value) -> ir.Value:
    """Pad with amounts and value as attributes (opset 2)."""
    value = constant(np.array(node.attribute("value"), dtype(input)))
    return pad(node, input, integers(node.attribute("pads")), value)


@imports("Pad", since=11)
def pad(
    node: Node, input: ir.Value, pads: ir.Value, value: ir.Value | None = None, axes: ir.Value | None = None
) -> ir.Value:
    """Pad with inputs (opset 11), of some axes only (opset 18); negative amounts cut elements off."""
    mode = node.attribute("mode")
    if mode not in _MODES:
        raise UnsupportedError(f"attribute 'mode' is '{mode}', but only {', '.join(_MODES)} are supported")
    amounts = node.known(pads)
    if amounts is not None and (amounts < 0).any():
        along = range(rank(input)) if axes is None else node.integers(axes, "axes")
        input, pads = _cropped(input, amounts.tolist(), list(along)), integers(np.maximum(amounts, 0).tolist())
    fill = value if value is None or rank(value) == 0 else reshaped(value, integers([]))
    return emit(DynamicPadOp, input, pads, fill, axes, mode=mode)


def _cropped(input: ir.Value, amounts: Sequence[int], axes: Sequence[int]) -> ir.Value:
    """`input` without the elements that negative amounts cut off."""
    starts = [max(-amount, 0) for amount in amounts[: len(axes)]]
    stops = [min(amount, 0) or np.iinfo(np.int64).max for amount in amounts[len(axes) :]]
    return emit(DynamicSliceOp, input, integers(starts), integers(stops), integers(axes))
