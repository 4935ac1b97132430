"""Strides, pads and dilations of convolution and pooling, with ONNX's defaults and automatic padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from .....dialects.dims import Dim, ceil_div
from .....sizes.extrema import greatest
from .....support.wording import quantity
from ....build import rank, shape
from ....errors import AttributeFault, NodeError
from ...nodes.node import Node


@dataclass(frozen=True)
class NodeWindow:
    """A kernel and the way it slides, one entry per spatial dimension."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """The extent of the dilated kernel."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))


def window_of(node: Node, input: ir.Value, kernel: tuple[int, ...]) -> NodeWindow:
    """The window that a convolution's or pooling's attributes describe, over an input (batch, channels, spatial...).

    Raises:
        NodeError: an attribute does not have one entry per spatial dimension.
    """
    count = rank(input) - 2
    if len(kernel) != count:
        raise NodeError(f"has a kernel of {quantity(len(kernel), 'dimension')}, but the input has {count} spatial ones")
    strides, dilations = (node.attribute(name, (1,) * count) for name in ("strides", "dilations"))
    for name, entries in (("strides", strides), ("dilations", dilations)):
        if len(entries) != count or min(entries, default=1) < 1:
            raise AttributeFault(f"attribute '{name}' must have {count} positive entries, but is {list(entries)}")
    return NodeWindow(kernel, strides, dilations)


def pads_of(node: Node, input: ir.Value, window: NodeWindow) -> tuple[int, ...]:
    """The padding of the input that a node's attributes specify: before every spatial dimension, then after each.

    Raises:
        NodeError: `auto_pad` is not one of ONNX's modes.
        NeedsShapes: the automatic padding depends on an extent that is not known.
    """
    mode, none = node.attribute("auto_pad"), (0,) * (2 * len(window.kernel))
    if mode == "NOTSET":
        return node.attribute("pads", none)
    if mode == "VALID":
        return none
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise AttributeFault(
            f"attribute 'auto_pad' is '{mode}', which is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER"
        )
    return halved([_same_total(node, input, window, axis) for axis in range(len(window.kernel))], mode)


def _same_total(node: Node, input: ir.Value, window: NodeWindow, axis: int) -> Dim:
    """The padding for which the output's size is the input's size divided by the stride, rounded up."""
    stride, extent = window.strides[axis], window.extents[axis]
    if stride == 1:
        return extent - 1
    (size,) = node.static(shape(input)[axis + 2 : axis + 3], "the extents of the input, for automatic padding,")
    return greatest((ceil_div(size, stride) * stride - stride + extent - size, 0))


def halved(totals: Sequence[Dim], mode: str) -> tuple[Any, ...]:
    """Splits padding into that before and that after; `mode` determines the side of the larger half."""
    before = [total - total // 2 if mode == "SAME_LOWER" else total // 2 for total in totals]
    return (*before, *(total - low for total, low in zip(totals, before, strict=True)))
