"""Convolutions as products of their weight with a matrix that has a row for each window (im2col)."""

from __future__ import annotations

import itertools
import math

import numpy as np
from mlir import ir

from ....dialects.specs import size_of
from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise.arithmetic import AddOp
from ....dialects.stepwell.movement import ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from ....machines.machine import Machine
from ....machines.paces import paces_of
from ..values import dtype_of, is_fixed, static_shape

UNFOLDED = "unfolded"
"""The name of this method among those of a convolution."""

_MOST_BYTES = 64 << 20
"""Maximum size of the matrix of windows: a larger one would show in a program's memory use."""


def can_unfold(op: ConvOp) -> bool:
    """Returns whether a convolution may become a product: several taps, one group, known sizes, a fixed weight."""
    weight, image, result = static_shape(op.weight), static_shape(op.input), static_shape(op.result)
    if op.layout != "channels_last" or weight is None or image is None or result is None:
        return False
    if op.group != 1 or min(op.pads) < 0 or not all(result) or math.prod(weight[2:]) == 1:
        return False
    return dtype_of(op.input) == np.float32 and is_fixed(op.weight) and _window_bytes(op) <= _MOST_BYTES


def unfolded(op: ConvOp) -> ir.Value:
    """conv(x, w, b) --> add(matmul(windows of x [places, taps * channels], w [taps * channels, columns]), b)"""
    shape = tuple(ir.RankedTensorType(op.result.type).shape)
    columns, channels, *taps = ir.RankedTensorType(op.weight.type).shape
    rank, depth = len(taps), channels * math.prod(taps)
    windows = ReshapeOp(_windows(op, taps), shape=(math.prod(shape[:-1]), depth)).result
    order = (*range(2, rank + 2), 1, 0)
    weight = ReshapeOp(TransposeOp(op.weight, permutation=order).result, shape=(depth, columns)).result
    result = ReshapeOp(MatmulOp(windows, weight).result, shape=shape).result
    return result if op.bias is None else AddOp(result, op.bias).result


def _windows(op: ConvOp, taps: list[int]) -> ir.Value:
    """The windows [N, places, taps * channels] of an image: a slice of the padded image for each tap."""
    rank, image = len(taps), op.input
    if any(op.pads):
        low, high = (0, *op.pads[:rank], 0), (0, *op.pads[rank:], 0)
        image = PadOp(image, low=low, high=high, value=0.0).result
    batch, *_, channels = ir.RankedTensorType(image.type).shape
    sizes = ir.RankedTensorType(op.result.type).shape[1:-1]
    slices = []
    for tap in itertools.product(*map(range, taps)):
        starts = [at * dilation for at, dilation in zip(tap, op.dilations, strict=True)]
        reached = [(size - 1) * stride + 1 for size, stride in zip(sizes, op.strides, strict=True)]
        stops = [start + length for start, length in zip(starts, reached, strict=True)]
        steps = (1, *op.strides, 1)
        slices.append(SliceOp(image, starts=(0, *starts, 0), stops=(batch, *stops, channels), steps=steps).result)
    return _joined(slices)


def _joined(values: list[ir.Value]) -> ir.Value:
    """Values joined along their last dimension."""
    rank = ir.RankedTensorType(values[0].type).rank
    whole = values[0]
    for value in values[1:]:
        whole = ConcatOp(whole, value, axis=rank - 1).result
    return whole


def _window_bytes(op: ConvOp) -> int:
    _, channels, *taps = ir.RankedTensorType(op.weight.type).shape
    places = math.prod(ir.RankedTensorType(op.result.type).shape[:-1])
    return places * channels * math.prod(taps) * dtype_of(op.input).itemsize


def multiplied_ns(op: ConvOp, machine: Machine) -> float:
    """Returns the estimated time of the multiplications on one core."""
    _, channels, *taps = ir.RankedTensorType(op.weight.type).shape
    return 2 * size_of(op.result) * channels * math.prod(taps) / paces_of(machine).product_flops


def unfolded_ns(op: ConvOp, machine: Machine) -> float:
    """Returns the estimated time of the product and of the copy of the windows on one core."""
    return multiplied_ns(op, machine) + _window_bytes(op) / paces_of(machine).stacked_bytes
