"""The pass `stepwell-choose-winograd`: computes 3x3 convolutions by Winograd's method if that is faster."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects import discardable
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.contraction import ConvOp, MatmulOp
from ...dialects.stepwell.elementwise.arithmetic import AddOp
from ...dialects.stepwell.elementwise.logic import CastOp
from ...dialects.stepwell.movement import ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from ...dialects.stepwell.winograd import KERNEL, TILES, WinogradConvOp, transforms
from ...machines.convolutions import direct_ns, winograd_ns
from ...machines.machine import Machine
from ...machines.panels import choose_panel
from ..infra.base import Pass, register
from ..infra.machine_option import DEFAULT, machine_of
from ..infra.state import CompileState
from ..ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from .panels import pack
from .values import dtype_of, is_fixed, static_shape


@register
@dataclass(frozen=True)
class ChooseWinogradPass(Pass):
    """Compute 3x3 convolutions of stride 1 by Winograd's method if that takes less time.

    A convolution over volumes becomes one over planes: the planes that its windows cover along the depth are stacked as
    channels.

    ```mlir
    %0 = "stepwell.conv"(%x, %w) {pads = array<i64: 1, 1, 1, 1>, layout = "channels_last", ...}
    // -->
    %g = "stepwell.matmul"(%w [K * C, 9], constant [9, points * points])      // G w G^T, in float64
    %0 = "stepwell.winograd_conv"(%x, %g packed) {pads = array<i64: 1, 1, 1, 1>, tile = 4, ...}
    ```

    Preconditions: images have their channels last.

    Attributes:
        machine: description of the machine.
        tile: tile size of all convolutions that allow the method; 0 selects the fastest one for each, or the direct
            convolution.
    """

    name = "stepwell-choose-winograd"
    machine: str = DEFAULT
    tile: int = 0

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the pattern to every convolution."""
        # If extents vary along the depth, the data of one volume is not contiguous when stacked as planes.
        machine, may_stack = machine_of(self.machine), not discardable.RANGES.is_on(op)
        apply_patterns(op, (WinogradForConv(machine, self.tile, may_stack),), state)


@dataclass(frozen=True)
class WinogradForConv(Pattern[ConvOp]):
    """conv(x, w, b) --> add(winograd_conv(x, transformed w), b)"""

    machine: Machine
    tile: int
    may_stack: bool = True
    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        refusal = _refusal(op, self.may_stack)
        if refusal is not None:
            return refusal
        tile = self.tile or _best_tile(op, self.machine)
        if not tile:
            return Refusal("the direct convolution takes less time")
        image, weight = (_stacked_planes(op), _stacked_taps(op)) if _is_deep(op) else (op.input, op.weight)
        columns, channels = ir.RankedTensorType(weight.type).shape[:2]
        lanes = self.machine.lanes(dtype_of(op.weight).itemsize)
        panel = choose_panel(self.machine, columns, lanes, _tiles(op, tile))
        points = (tile + KERNEL - 1) ** 2
        packed = pack(_transformed(weight, tile), points, columns, channels, panel)
        result = WinogradConvOp(image, packed, columns=columns, panel=panel, tile=tile, pads=_planar(op.pads)).result
        if _is_deep(op):
            result = ReshapeOp(result, shape=tuple(ir.RankedTensorType(op.result.type).shape)).result
        return result if op.bias is None else AddOp(result, op.bias).result


def _is_deep(op: ConvOp) -> bool:
    """Returns whether the convolution is over volumes."""
    return len(op.strides) == 3


def _planar(pads: tuple[int, ...]) -> tuple[int, ...]:
    """The padding without that along the depth."""
    count = len(pads) // 2
    return (*pads[count - 2 : count], *pads[-2:])


def _stacked_planes(op: ConvOp) -> ir.Value:
    """Volumes [N, D, H, W, C] as planes [N * depth of the result, H, W, taps * C]: all planes that a window covers."""
    taps = ir.RankedTensorType(op.weight.type).shape[2]
    low, high = op.pads[0], op.pads[3]
    around = op.input
    if low or high:
        around = PadOp(around, low=(0, low, 0, 0, 0), high=(0, high, 0, 0, 0), value=0.0).result
    shape = tuple(ir.RankedTensorType(around.type).shape)
    batch, depth = ir.RankedTensorType(op.result.type).shape[:2]
    stride, dilation = op.strides[0], op.dilations[0]
    stacked = None
    for tap in range(taps):
        start = tap * dilation
        starts, stops = (0, start, 0, 0, 0), (shape[0], start + (depth - 1) * stride + 1, *shape[2:])
        plane = SliceOp(around, starts=starts, stops=stops, steps=(1, stride, 1, 1, 1)).result
        stacked = plane if stacked is None else ConcatOp(stacked, plane, axis=4).result
    assert stacked is not None
    return ReshapeOp(stacked, shape=(batch * depth, *shape[2:4], taps * shape[4])).result


def _stacked_taps(op: ConvOp) -> ir.Value:
    """The weight [K, C, taps, 3, 3] as [K, taps * C, 3, 3]."""
    columns, channels, taps, *kernel = ir.RankedTensorType(op.weight.type).shape
    transposed = TransposeOp(op.weight, permutation=(0, 2, 1, 3, 4)).result
    return ReshapeOp(transposed, shape=(columns, taps * channels, *kernel)).result


def _transformed(weight: ir.Value, tile: int) -> ir.Value:
    """The weight [K, C, 3, 3] as [points * points, K, C]: G w G^T in float64, rounded once."""
    columns, channels = ir.RankedTensorType(weight.type).shape[:2]
    matrix = transforms(tile).weight
    both = np.kron(matrix, matrix)
    taps = ReshapeOp(CastOp(weight, dtype=np.dtype(np.float64)).result, shape=(columns * channels, KERNEL**2)).result
    product = MatmulOp(taps, ConstantOp(value=np.ascontiguousarray(both.T)).result).result
    rounded = ReshapeOp(CastOp(product, dtype=dtype_of(weight)).result, shape=(columns, channels, len(both))).result
    return TransposeOp(rounded, permutation=(2, 0, 1)).result


def _refusal(op: ConvOp, may_stack: bool) -> Refusal | None:
    shape, image, result = static_shape(op.weight), static_shape(op.input), static_shape(op.result)
    if op.layout != "channels_last":
        return Refusal("the channels are not the last dimension")
    if shape is None or image is None or result is None:
        return Refusal("the shapes are not static")
    if shape[-2:] != (KERNEL, KERNEL) or {*op.strides[-2:], *op.dilations[-2:], op.group} != {1}:
        return Refusal("it is not 3x3 with stride 1, dilation 1 and one group")
    if len(shape) not in (4, 5) or (len(shape) == 5 and not may_stack):
        return Refusal("it is neither over planes nor over volumes whose extents do not vary")
    if dtype_of(op.input) != np.float32:
        return Refusal("its elements are not float32")
    if min(op.pads) < 0 or not all(result):
        return Refusal("it crops its input, or its result is empty")
    return None if is_fixed(op.weight) else Refusal("the weight is not the same in every run")


def _tiles(op: ConvOp, tile: int) -> int:
    *planes, height, width, _ = ir.RankedTensorType(op.result.type).shape
    return math.prod(planes) * -(-height // tile) * -(-width // tile)


def _best_tile(op: ConvOp, machine: Machine) -> int:
    """The tile size that takes the least time; 0 for the direct convolution."""
    return min((0, *TILES), key=lambda tile: _nanoseconds(op, tile, machine))


def _nanoseconds(op: ConvOp, tile: int, machine: Machine) -> float:
    """A rough estimate of the time on one core; for tile 0, that of the direct convolution."""
    columns, channels, *taps = ir.RankedTensorType(op.weight.type).shape[:-2]
    channels *= math.prod(taps)
    size = dtype_of(op.weight).itemsize
    if not tile:
        return direct_ns(machine, KERNEL**2 * columns * channels, size, _tiles(op, 1))
    points = (tile + KERNEL - 1) ** 2
    lanes = machine.lanes(size)
    # Whole vectors are transformed, even if partly unused.
    elements = sum(-(-count // lanes) * lanes for count in (channels, columns))
    stacked = 0
    if _is_deep(op):
        *places, _ = ir.RankedTensorType(op.result.type).shape
        stacked = dtype_of(op.input).itemsize * math.prod(places) * channels
    tiles = _tiles(op, tile)
    return winograd_ns(machine, points * columns * channels, size, tiles, points * tiles * elements, stacked)
