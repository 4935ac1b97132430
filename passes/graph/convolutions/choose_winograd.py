"""The pass `stepwell-choose-winograd`: computes convolutions by Winograd's method if that is faster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects import discardable
from ....dialects.specs import size_of
from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise.arithmetic import AddOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from ....dialects.stepwell.winograd import WinogradConvOp, extents_of, tiles_of, transforms
from ....machines.convolutions import direct_ns, winograd_ns
from ....machines.machine import Machine
from ....machines.panels import choose_panel
from ...infra.base import Pass, register
from ...infra.decisions import Decisions, Site, key_of
from ...infra.state import CompileState
from ...ir.locations import names_in
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from ..packing.panels import pack
from ..values import dtype_of, is_fixed, static_shape
from .unfold import UNFOLDED, can_unfold, multiplied_ns, unfolded, unfolded_ns

DIRECT, _WINOGRAD = "direct", "winograd "
"""Methods of convolutions: the direct one, and Winograd's with the size of its tiles. `UNFOLDED` is a third one."""


@register
@dataclass(frozen=True)
class ChooseWinogradPass(Pass):
    """Compute convolutions of stride 1 with 3 or 5 taps in a direction by Winograd's method if that takes less time.

    The attribute `stepwell.decisions` of the module may name another method for a convolution: `direct`, `winograd 4`,
    or `unfolded`, a product of its weight with a matrix that has a row for each window (im2col).

    A convolution over volumes becomes one over planes: the planes that its windows cover along the depth are stacked as
    channels. So does one over sequences: with dilation d, d neighbours are a row, and windows are columns.

    ```mlir
    %0 = "stepwell.conv"(%x, %w) {pads = array<i64: 1, 1, 1, 1>, layout = "channels_last", ...}
    // -->
    %g = "stepwell.matmul"(%w [K * C, 9], constant [9, points * points])      // G w G^T, in float64
    %0 = "stepwell.winograd_conv"(%x, %g packed) {pads = array<i64: 1, 1, 1, 1>, tile = 4, ...}
    ```

    Preconditions: images have their channels last.

    Attributes:
        tile: tile size of all convolutions that allow the method; 0 selects the fastest one for each, or the direct
            convolution.
    """

    name = "stepwell-choose-winograd"
    tile: int = 0

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the pattern to every convolution."""
        # If extents vary along the depth, the data of one volume is not contiguous when stacked as planes.
        machine, may_stack = state.machine, not discardable.RANGES.is_on(op)
        decisions = Decisions.of(op, state)
        apply_patterns(op, (WinogradForConv(machine, self.tile, may_stack, decisions),), state)


@dataclass(frozen=True)
class WinogradForConv(Pattern[ConvOp]):
    """conv(x, w, b) --> add(winograd_conv(x, transformed w), b)"""

    machine: Machine
    tile: int
    may_stack: bool
    decisions: Decisions
    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        refusal = _refusal(op, self.may_stack)
        times = _times(op, self.machine) if refusal is None else {}
        default = min(times, key=times.__getitem__, default=DIRECT)
        method = self.decisions.make(default, lambda: _site(op, self.machine, default, times, self.may_stack))
        if method == UNFOLDED:
            return unfolded(op)
        if refusal is not None:
            return refusal
        tile = self.tile or _tile_of(method)
        if not tile:
            return Refusal("the direct convolution takes less time")
        if tile not in tiles_of(_kernel(op)):
            return Refusal(f"tiles of {tile} have no transforms for its kernel")
        image, weight, pads = _planes(op)
        columns, channels = ir.RankedTensorType(weight.type).shape[:2]
        lanes = self.machine.lanes(dtype_of(op.weight).itemsize)
        panel = choose_panel(self.machine, columns, lanes, _tiles(op, tile))
        kernel = _kernel(op)
        packed = pack(_transformed(weight, tile, kernel), _points(tile, kernel), columns, channels, panel)
        result = WinogradConvOp(image, packed, columns=columns, panel=panel, kernel=kernel, tile=tile, pads=pads).result
        result = _unfolded(op, result)
        return result if op.bias is None else AddOp(result, op.bias).result


def _is_deep(op: ConvOp) -> bool:
    """Returns whether the convolution is over volumes."""
    return len(op.strides) == 3


def _is_flat(op: ConvOp) -> bool:
    """Returns whether the convolution is over sequences."""
    return len(op.strides) == 1


def _kernel(op: ConvOp) -> tuple[int, int]:
    """The numbers of taps along the rows and columns of the convolution over planes."""
    taps = tuple(ir.RankedTensorType(op.weight.type).shape[2:])
    return (taps[0], 1) if _is_flat(op) else (taps[-2], taps[-1])


def _places(op: ConvOp) -> tuple[int, int, int]:
    """The numbers of planes, rows and columns of the result of the convolution over planes."""
    *planes, height, width, _ = ir.RankedTensorType(op.result.type).shape
    if _is_flat(op):
        return height, -(-width // op.dilations[0]), op.dilations[0]
    return math.prod(planes), height, width


def _planes(op: ConvOp) -> tuple[ir.Value, ir.Value, tuple[int, ...]]:
    """The images, weight and padding of the convolution over planes."""
    if _is_flat(op):
        image, pads = _folded(op)
        return image, op.weight, pads
    if _is_deep(op):
        return _stacked_planes(op), _stacked_taps(op), _planar(op.pads)
    return op.input, op.weight, op.pads


def _planar(pads: tuple[int, ...]) -> tuple[int, ...]:
    """The padding without that along the depth."""
    count = len(pads) // 2
    return (*pads[count - 2 : count], *pads[-2:])


@dataclass(frozen=True)
class _Folding:
    """A sequence of `length` elements as rows of `width` neighbours, after padding.

    Attributes:
        width: the dilation.
        start: elements of padding before the sequence.
        end: elements of padding after the sequence, up to a whole row.
        pads: rows of padding before and after these elements.
    """

    width: int
    start: int
    end: int
    pads: tuple[int, int]

    @staticmethod
    def of(op: ConvOp) -> _Folding:
        """Returns the folding of the input: only the start of a row needs padding in memory, and the last row."""
        (width,), (low, _) = op.dilations, op.pads
        length = ir.RankedTensorType(op.input.type).shape[1]
        taps, _ = _kernel(op)
        _, rows, _ = _places(op)
        start = low if low % width else 0
        before = (low - start) // width
        held = -(-(start + length) // width)
        return _Folding(width, start, held * width - start - length, (before, rows + taps - 1 - before - held))


def _folded(op: ConvOp) -> tuple[ir.Value, tuple[int, ...]]:
    """Sequences [N, L, C] as images [N, ceil(L / dilation), dilation, C], and the padding that these need."""
    folding, around = _Folding.of(op), op.input
    if folding.start or folding.end:
        around = PadOp(around, low=(0, folding.start, 0), high=(0, folding.end, 0), value=0.0).result
    batch, length, channels = ir.RankedTensorType(around.type).shape
    image = ReshapeOp(around, shape=(batch, length // folding.width, folding.width, channels)).result
    return image, (folding.pads[0], 0, folding.pads[1], 0)


def _unfolded(op: ConvOp, result: ir.Value) -> ir.Value:
    """The result of the convolution over planes in the shape of the result of `op`."""
    shape = tuple(ir.RankedTensorType(op.result.type).shape)
    if _is_flat(op):
        batch, length, columns = shape
        _, rows, width = _places(op)
        whole = ReshapeOp(result, shape=(batch, rows * width, columns)).result
        if rows * width == length:
            return whole
        return SliceOp(whole, starts=(0, 0, 0), stops=shape, steps=(1, 1, 1)).result
    return ReshapeOp(result, shape=shape).result if _is_deep(op) else result


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


def _transformed(weight: ir.Value, tile: int, kernel: tuple[int, int]) -> ir.Value:
    """The transformed weight G w G^T of [K, C, *kernel], as [points, K, C]; computed in float64 and rounded once."""
    columns, channels = ir.RankedTensorType(weight.type).shape[:2]
    down, across = (transforms(each, taps).weight for each, taps in zip(extents_of(tile, kernel), kernel, strict=True))
    both = np.kron(down, across)
    wide = CastOp(weight, dtype=np.dtype(np.float64)).result
    taps = ReshapeOp(wide, shape=(columns * channels, math.prod(kernel))).result
    product = MatmulOp(taps, ConstantOp(value=np.ascontiguousarray(both.T)).result).result
    rounded = ReshapeOp(CastOp(product, dtype=dtype_of(weight)).result, shape=(columns, channels, len(both))).result
    return TransposeOp(rounded, permutation=(2, 0, 1)).result


def _refusal(op: ConvOp, may_stack: bool) -> Refusal | None:
    shape, image, result = static_shape(op.weight), static_shape(op.input), static_shape(op.result)
    if op.layout != "channels_last":
        return Refusal("the channels are not the last dimension")
    if shape is None or image is None or result is None:
        return Refusal("the shapes are not static")
    if len(shape) not in (3, 4, 5):
        return Refusal("it is not over sequences, planes or volumes")
    kernel = _kernel(op)
    is_spread = not _is_flat(op) and set(op.dilations[-2:]) != {1}
    if not tiles_of(kernel) or {*op.strides[-2:], op.group} != {1} or is_spread:
        return Refusal("it does not have 3 or 5 taps in a direction, stride 1, dilation 1 in a plane, and one group")
    if not may_stack and (len(shape) != 4 or kernel[0] != kernel[1]):
        return Refusal("extents vary, and it is not over planes with as many taps in both directions")
    if dtype_of(op.input) != np.float32:
        return Refusal("its elements are not float32")
    if min(op.pads) < 0 or not all(result):
        return Refusal("it crops its input, or its result is empty")
    return None if is_fixed(op.weight) else Refusal("the weight is not the same in every run")


def _points(tile: int, kernel: tuple[int, int]) -> int:
    return math.prod(each + taps - 1 for each, taps in zip(extents_of(tile, kernel), kernel, strict=True))


def _tiles(op: ConvOp, tile: int) -> int:
    planes, *sizes = _places(op)
    extents = extents_of(tile, _kernel(op))
    return planes * math.prod(-(-size // each) for size, each in zip(sizes, extents, strict=True))


def _tile_of(method: str) -> int:
    """The tile size in the name of a method; 0 for the direct convolution."""
    return int(method.removeprefix(_WINOGRAD)) if method.startswith(_WINOGRAD) else 0


def _times(op: ConvOp, machine: Machine) -> dict[str, float]:
    """The estimated times of the direct method and of Winograd's with each size of tiles."""
    tiles = (0, *tiles_of(_kernel(op)))
    return {f"{_WINOGRAD}{tile}" if tile else DIRECT: _nanoseconds(op, tile, machine) for tile in tiles}


def _site(op: ConvOp, machine: Machine, default: str, times: Mapping[str, float], is_static: bool) -> Site:
    """The methods that can compute a convolution."""
    costs: dict[str, float | None] = {DIRECT: None, **times}
    operation = op.operation
    names = names_in(operation.location)
    if not is_static or not can_unfold(op):
        return Site("method", key_of(operation), names, default, costs)
    costs[UNFOLDED] = unfolded_ns(op, machine)
    costs[DIRECT] = costs[DIRECT] or multiplied_ns(op, machine)
    moved = sum(size_of(value) * dtype_of(value).itemsize for value in (*operation.operands, op.result))
    return Site("method", key_of(operation), names, default, costs, op.flops(), moved)


def _nanoseconds(op: ConvOp, tile: int, machine: Machine) -> float:
    """A rough estimate of the time on one core; for tile 0, that of the direct convolution."""
    kernel = _kernel(op)
    columns, channels, *taps = ir.RankedTensorType(op.weight.type).shape
    channels *= math.prod(taps) // math.prod(kernel)
    size = dtype_of(op.weight).itemsize
    if not tile:
        places = math.prod(ir.RankedTensorType(op.result.type).shape[:-1])
        return direct_ns(machine, math.prod(kernel) * columns * channels, size, places)
    points = _points(tile, kernel)
    lanes = machine.lanes(size)
    # Whole vectors are transformed, even if partly unused.
    elements = sum(-(-count // lanes) * lanes for count in (channels, columns))
    tiles = _tiles(op, tile)
    transformed = points * tiles * elements
    stacked, copied = (size * count for count in _copied(op, channels))
    return winograd_ns(machine, points * columns * channels, size, tiles, transformed, stacked, copied)


def _copied(op: ConvOp, channels: int) -> tuple[int, int]:
    """The number of elements copied to stack planes, to pad the input, and to crop the result."""
    *places, columns = ir.RankedTensorType(op.result.type).shape
    if not _is_flat(op):
        return (math.prod(places) * channels if _is_deep(op) else 0), 0
    folding, (planes, rows, width) = _Folding.of(op), _places(op)
    copied = planes * rows * width * channels if folding.start or folding.end else 0
    return 0, copied + (math.prod(places) * columns if rows * width != places[-1] else 0)
