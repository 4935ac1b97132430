"""What ops that look at windows of their operands need of these, where a prefix of their results is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from ...dialects.stepwell import STEPWELL
from ...dialects.stepwell.movement import ResizeOp
from ...dialects.stepwell.winograd import WinogradConvOp
from .prefixes import Prefix, all_of, broadcast, scaled, sizes_of


def conv(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """What the windows of the positions meet; images have their channels last, and no padding."""
    if place:
        return all_of(op.operands[place])
    view = STEPWELL.view(op)
    assert view is not None
    attributes = view.attribute_values()
    kernel = attributes["kernel"] if "kernel" in attributes else sizes_of(op.operands[1])[: len(attributes["strides"])]
    return _windows(needed, kernel, attributes["strides"], attributes["dilations"], [0] * len(kernel))


def pool(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """As of a convolution, where channels are last."""
    view: Any = STEPWELL.view(op)
    if view.layout != "channels_last":
        return all_of(op.operands[0])
    return _windows(needed, view.kernel, view.strides, view.dilations, view.pads)


def winograd(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """What whole tiles of the result meet."""
    view = WinogradConvOp(op)
    if place:
        return broadcast(op, place, needed, table) if place > 1 else all_of(op.operands[place])
    tiles = [prefix if prefix is None else ["+", prefix, view.tile - 1] for prefix in needed]
    return _windows(tiles, (3, 3), (1, 1), (1, 1), view.pads)


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


def resize(op: ir.Operation, place: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """To the nearest element by whole factors; one more, whichever way halves are rounded."""
    view = ResizeOp(op)
    if view.mode != "nearest":
        return all_of(op.operands[0])
    scales = [float(scale) for scale in view.scales]
    found: list[Prefix] = []
    for prefix, scale in zip(needed, scales, strict=True):
        if prefix is not None and scale != 1:
            prefix = ["+", ["ceildiv", prefix, int(scale)], 1] if scale.is_integer() else None
        found.append(prefix)
    return found
