"""Transposed convolutions as convolutions, once the channels are last."""

from __future__ import annotations

import math

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp
from ....dialects.stepwell.elementwise import AddOp
from ....dialects.stepwell.movement import PadOp, ReshapeOp, ReverseOp, SliceOp, TransposeOp
from ...rewriting import Pattern, Refusal, Replacement
from ..values import shape_of


class ScatterBlocks(Pattern[ConvTransposeOp]):
    """conv_transpose(x, w) {kernel = strides} --> blocks(conv(x, one pixel for each of w's))"""

    root = ConvTransposeOp

    def rewrite(self, op: ConvTransposeOp) -> Replacement:
        shape, weight = shape_of(op.input), shape_of(op.weight)
        if op.layout != "channels_last" or shape is None or weight is None:
            return None
        kernel, count = weight[2:], len(weight) - 2
        is_plain = op.group == 1 and not any(op.pads) and not any(op.output_padding) and set(op.dilations) == {1}
        if kernel != tuple(op.strides) or not is_plain:
            return Refusal("windows overlap, are padded or come in groups")
        # Weights [inputs, outputs, *kernel] become an output channel per pixel: [*kernel outputs, inputs].
        ordered = TransposeOp(op.weight, permutation=(*range(2, count + 2), 1, 0)).result
        flat = ReshapeOp(ordered, shape=(math.prod(kernel) * weight[1], weight[0], *(1 for _ in kernel))).result
        ones = (1,) * count
        plain = {"strides": ones, "pads": (0,) * (2 * count), "dilations": ones, "layout": "channels_last"}
        pixels = ConvOp(op.input, flat, **plain).result
        spread = ReshapeOp(pixels, shape=(*shape[:-1], *kernel, weight[1])).result
        order = (0, *(axis for at in range(count) for axis in (1 + at, 1 + count + at)), 1 + 2 * count)
        woven = TransposeOp(spread, permutation=order).result
        size = tuple(dim * step for dim, step in zip(shape[1:-1], kernel, strict=True))
        return _with_bias(ReshapeOp(woven, shape=(shape[0], *size, weight[1])).result, op.bias)


class StuffZeros(Pattern[ConvTransposeOp]):
    """conv_transpose(x, w) --> conv(x with zeros between its pixels, w reversed)"""

    root = ConvTransposeOp

    def rewrite(self, op: ConvTransposeOp) -> Replacement:
        shape, weight = shape_of(op.input), shape_of(op.weight)
        if op.layout != "channels_last" or shape is None or weight is None:
            return None
        count = len(weight) - 2
        reach = [step * (size - 1) for step, size in zip(op.dilations, weight[2:], strict=True)]
        low = [size - pad for size, pad in zip(reach, op.pads[:count], strict=True)]
        high = [size - pad for size, pad in zip(reach, op.pads[count:], strict=True)]
        high = [size + extra for size, extra in zip(high, op.output_padding or (0,) * count, strict=True)]
        stuffed = _resized(_stuffed(op.input, shape, op.strides), low, high)
        ones = (1,) * count
        result = ConvOp(
            stuffed,
            _reversed(op.weight, weight, op.group),
            strides=ones,
            pads=(0,) * (2 * count),
            dilations=op.dilations,
            group=op.group,
            layout="channels_last",
        ).result
        return _with_bias(result, op.bias)


PATTERNS = (ScatterBlocks(), StuffZeros())


def _stuffed(value: ir.Value, shape: tuple[int, ...], strides: tuple[int, ...]) -> ir.Value:
    """`value` [n, *size, c] with `stride - 1` zeros between two pixels of each dimension."""
    if set(strides) == {1}:
        return value
    batch, *size, channels = shape
    apart = ReshapeOp(value, shape=(batch, *(dim for pixels in size for dim in (pixels, 1)), channels)).result
    high = (0, *(amount for stride in strides for amount in (0, stride - 1)), 0)
    padded = PadOp(apart, low=(0,) * len(high), high=high, value=0.0).result
    wide = [pixels * stride for pixels, stride in zip(size, strides, strict=True)]
    joined = ReshapeOp(padded, shape=(batch, *wide, channels)).result
    # No zeros follow the last pixel.
    stops = [pixels - stride + 1 for pixels, stride in zip(wide, strides, strict=True)]
    rank = len(shape)
    return SliceOp(joined, starts=(0,) * rank, stops=(batch, *stops, channels), steps=(1,) * rank).result


def _resized(value: ir.Value, low: list[int], high: list[int]) -> ir.Value:
    """`value` [n, *size, c] with so many zeros more, or pixels less, at the ends of each dimension."""
    shape = shape_of(value)
    assert shape is not None
    starts = (0, *(max(0, -amount) for amount in low), 0)
    stops = (shape[0], *(dim - max(0, -amount) for dim, amount in zip(shape[1:-1], high, strict=True)), shape[-1])
    if any(starts) or stops != shape:
        value = SliceOp(value, starts=starts, stops=stops, steps=(1,) * len(shape)).result
    more = ((0, *(max(0, amount) for amount in amounts), 0) for amounts in (low, high))
    return PadOp(value, **dict(zip(("low", "high"), more, strict=True)), value=0.0).result


def _reversed(value: ir.Value, shape: tuple[int, ...], group: int) -> ir.Value:
    """The weight [inputs, outputs / group, *kernel] for a convolution, reversed: [outputs, inputs / group, *kernel]."""
    inputs, outputs, *kernel = shape
    turned = ReverseOp(value, axes=tuple(range(2, len(shape)))).result
    apart = ReshapeOp(turned, shape=(group, inputs // group, outputs, *kernel)).result
    swapped = TransposeOp(apart, permutation=(0, 2, 1, *range(3, 3 + len(kernel)))).result
    return ReshapeOp(swapped, shape=(group * outputs, inputs // group, *kernel)).result


def _with_bias(value: ir.Value, bias: ir.Value | None) -> ir.Value:
    return value if bias is None else AddOp(value, bias).result
