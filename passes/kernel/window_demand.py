"""Liveness rules for ops on windows: the live part of their operands for given live prefixes of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from ...dialects.registry import view_of
from ...dialects.stepwell.movement import ResizeOp
from ...dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp
from ...dialects.stepwell.planar import PlanarConvOp
from ...dialects.stepwell.pooling import PoolOp
from ...dialects.stepwell.windows import CHANNELS_FIRST
from ...dialects.stepwell.winograd import WinogradConvOp
from ..ir.values import shape_of
from .prefixes import DEMAND, Prefix, all_of, broadcast, divided, scaled


@DEMAND.attach(PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp)
def conv(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The part of the image covered by the windows of the live positions; images have channels last and no padding."""
    if index:
        return all_of(op.operands[index])
    view = view_of(op)
    assert view is not None
    attributes = view.attribute_values()
    kernel = attributes["kernel"] if "kernel" in attributes else shape_of(op.operands[1])[: len(attributes["strides"])]
    return _windows(needed, kernel, attributes["strides"], attributes["dilations"], [0] * len(kernel))


@DEMAND.attach(PoolOp, PlanarConvOp)
def pool(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """As for a convolution, but with independent channels, which may come first; filters in full."""
    if index:
        return all_of(op.operands[index])
    view: Any = view_of(op)
    window = (view.kernel, view.strides, view.dilations, view.pads)
    if view.layout != CHANNELS_FIRST:
        return [*_windows(needed, *window)[:-1], needed[-1]]
    batch, channels, *places = needed
    return [batch, channels, *_windows([batch, *places, None], *window)[1:-1]]


@DEMAND.attach(WinogradConvOp)
def winograd(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The part of the image covered by whole tiles of the result."""
    view = WinogradConvOp(op)
    if index:
        return broadcast(op, index, needed, table) if index > 1 else all_of(op.operands[index])
    tiles = [scaled(prefix, 1, tile - 1) for prefix, tile in zip(needed[1:-1], view.extents, strict=True)]
    return _windows([needed[0], *tiles, needed[-1]], view.kernel, (1, 1), (1, 1), view.pads)


def _windows(
    needed: Sequence[Prefix],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> list[Prefix]:
    found: list[Prefix] = [needed[0]]
    for prefix, size, stride, dilation, pad in zip(needed[1:-1], kernel, strides, dilations, pads, strict=False):
        found.append(scaled(prefix, stride, (size - 1) * dilation + 1 - stride - pad))
    return [*found, None]


@DEMAND.attach(ResizeOp)
def resize(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """Unresized dimensions keep the prefix; nearest by an integer factor adds one element for rounding."""
    view = ResizeOp(op)
    found: list[Prefix] = []
    for prefix, scale, old, new in zip(needed, map(float, view.scales), shape_of(view.input), view.sizes, strict=True):
        if prefix is not None and not (scale == 1 and old == new):
            is_whole = view.mode == "nearest" and scale.is_integer()
            prefix = scaled(divided(prefix, int(scale)), 1, 1) if is_whole else None
        found.append(prefix)
    return found
