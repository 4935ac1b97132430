"""Convolutions, direct and channels-last, as one linalg.generic per column group, without im2col."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ...dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp
from ...dialects.stepwell.panels import ColumnGroup, column_groups
from ...machines.families import WIDEST_VECTOR_BYTES
from ...passes.ir.values import Shape, shape_of
from ..builders.generics import constant, zero_of
from ..builders.spaces import ResultSpace, collapse, expand, slice_axis
from ..builders.tensors import pad_with
from .products import (
    PRODUCT,
    Product,
    aligned_outer,
    emit_contraction,
    emit_grains,
    grain,
    groups_of,
    has_lines,
    in_grains,
    lines_of,
    panels_of,
)


@PRODUCT.attach(PackedConvOp)
def packed_conv(op: PackedConvOp, others: Sequence[Shape]) -> Product:
    """Returns a convolution with packed weights as a contraction.

    (n?, *out, group?, panel, lane, *kernel, c): input[n, *(out * stride + kernel * dilation), group, c] * weight.
    """
    space = _space(op.result, others, op.group)
    channels = shape_of(op.input)[-1] // op.group
    source, window = _window(op.input, space, op.kernel, op.strides, op.dilations, op.pads)
    spatial, dim = len(op.kernel), ir.AffineExpr.get_dim
    features = [dim(space.rank - 3)] if op.group > 1 else []
    if op.group > 1:
        source = expand(source, len(shape_of(source)) - 1, [op.group, channels])
    taps = [dim(space.rank + axis) for axis in range(spatial + 1)]
    source = source if has_lines(op) else in_grains(source, grain(op))

    def emit(group: ColumnGroup, out: ir.Value) -> ir.OpView:
        if has_lines(op):
            weight = lines_of(op.weight, space.columns, op.group, (*op.kernel, channels))
            weight_map = [*features, dim(space.rank - 2), dim(space.rank - 1), *taps]
            return emit_contraction(source, [*window, *features, taps[-1]], weight, weight_map, out, spatial + 1)
        weight = panels_of(op.weight, group, op.group, (*op.kernel, channels), grain(op))
        weight_map = [*features, dim(space.rank - 2), *taps, dim(space.rank - 1)]
        return emit_grains(source, [*window, *features, taps[-1]], weight, weight_map, out, spatial + 1, grain(op))

    return Product(space, groups_of(space.columns, op), emit)


@PRODUCT.attach(PackedDepthwiseConvOp)
def depthwise_conv(op: PackedDepthwiseConvOp, others: Sequence[Shape]) -> Product:
    """Returns a depthwise convolution as a contraction.

    (n?, *out, panel, lane, *kernel): input[n, *(out * stride + kernel * dilation), panel, lane] * weight.
    """
    space = _space(op.result, others, 1)
    kernel = shape_of(op.weight)[:-1]
    source, window = _window(op.input, space, kernel, op.strides, op.dilations, op.pads)
    dim = ir.AffineExpr.get_dim
    lanes = [dim(space.rank - 2), dim(space.rank - 1)]
    taps = [dim(space.rank + axis) for axis in range(len(kernel))]

    def emit(group: ColumnGroup, out: ir.Value) -> ir.OpView:
        pixels = space.split_columns(source, len(window), group)
        weight = space.split_columns(op.weight, len(kernel), group)
        return emit_contraction(pixels, [*window, *lanes], weight, [*taps, *lanes], out, len(kernel))

    return Product(space, column_groups(space.columns, depthwise_panel(space.columns)), emit)


@PRODUCT.attach(PackedGroupedConvOp)
def grouped_conv(op: PackedGroupedConvOp, others: Sequence[Shape]) -> Product:
    """Returns a grouped convolution as a contraction.

    (n?, *out, panel, lane, *kernel[:-1], c, kernel[-1]): every lane reads channel c of its group. Column l reads
    channel (l floordiv columns of a group) * channels of a group + c: the lanes of one group read the same channel. The
    kernel's last dimension is innermost, because neighbouring positions share the elements that they read along it.
    """
    space = _space(op.result, others, 1)
    *kernel, channels, columns = shape_of(op.weight)
    width, spatial, dim = columns // op.group, len(kernel), ir.AffineExpr.get_dim
    panel, lane, inner = dim(space.rank - 2), dim(space.rank - 1), space.rank + spatial
    taps = [dim(space.rank + axis) for axis in range(spatial - 1)] + [dim(inner)]
    source, window = _window(op.input, space, kernel, op.strides, op.dilations, op.pads, taps)
    channel = dim(inner - 1)

    def emit(group: ColumnGroup, out: ir.Value) -> ir.OpView:
        pixels = slice_axis(source, len(window), group.start // width * channels, group.size // width * channels)
        weight = space.split_columns(op.weight, spatial + 1, group)
        first = panel * (group.width // width * channels)
        place = first + ir.AffineExpr.get_floor_div(lane, width) * channels + channel
        return emit_contraction(pixels, [*window, place], weight, [*taps, channel, panel, lane], out, spatial + 1)

    return Product(space, column_groups(space.columns, depthwise_panel(space.columns, width)), emit)


# Channels of a register on the widest targets, and the maximum number of channels whose sums narrower targets can hold.
_LANES, _MOST_CHANNELS = WIDEST_VECTOR_BYTES // 4, 96


def depthwise_panel(channels: int, multiple: int = 1) -> int:
    """Returns the panel width that takes the fewest registers in all; a tail of another width needs code of its own."""

    def cost(width: int) -> tuple[float, int]:
        groups = column_groups(channels, width)
        registers = sum(group.panels * -(-group.width // _LANES) for group in groups)
        # Widths that are not a multiple of half a register have masked, unaligned accesses in every panel.
        return registers * (1.2 if width % 8 and width != channels else 1) + (len(groups) - 1) / 2, width

    divisors = (width for width in range(multiple, _MOST_CHANNELS + 1, multiple) if channels % width == 0)
    return min({_LANES, *divisors}, key=cost)


def _space(result: ir.Value, others: Sequence[Shape], count: int) -> ResultSpace:
    """Returns an index space with separate spatial dimensions, as a window moves along each of them."""
    shape = shape_of(result)
    return ResultSpace(shape, aligned_outer(others, len(shape)), count=count, separate=range(1, len(shape) - 1))


def _window(
    input: ir.Value,
    space: ResultSpace,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    taps: Sequence[ir.AffineExpr] | None = None,
) -> tuple[ir.Value, list[ir.AffineExpr]]:
    """Returns the input without a batch dimension of 1, and the index expressions of its batch and spatial dimensions.

    The taps of the window are the dimensions after those of the result, unless `taps` names others.
    """
    rank, dim = len(kernel), ir.AffineExpr.get_dim
    batch = 0 if space.runs[0] != [0] else 1
    if pads:
        input = _padded(input, pads)
    source = input if batch else collapse(input, [[0, 1], *([axis] for axis in range(2, rank + 2))])
    taps = taps or [dim(space.rank + axis) for axis in range(rank)]
    places = [dim(batch + axis) * strides[axis] + taps[axis] * dilations[axis] for axis in range(rank)]
    return source, [*([dim(0)] if batch else []), *places]


def _padded(input: ir.Value, pads: Sequence[int]) -> ir.Value:
    """Returns `input`, channels last, with zeros around its images."""
    count, zero = len(pads) // 2, constant(zero_of(ir.RankedTensorType(input.type).element_type))
    return pad_with(input, [0, *pads[:count], 0], [0, *pads[count:], 0], zero)
