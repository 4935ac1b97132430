"""Derivatives of convolutions: the input's is a transposed convolution, the weight's are matrix products."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp
from ....dialects.stepwell.windows import CHANNELS_FIRST, Window
from ...ir.values import Shape, shape_of
from ..build import concat, count, matmul, mul, pad, part, product_of_columns, reshape, total, transpose
from ..derivative import DERIVATIVE, Gradients

_SHARE = 13
"""Writing out windows of all lines takes about 13 / rows of the time of the product (20 / rows, two thirds of which are
saved, on an EPYC of Zen 5); the lines of zeros take (lines of the kernel - 1) / height."""


@DERIVATIVE.attach(ConvOp)
def convolution(op: ConvOp, gradient: ir.Value) -> Gradients:
    """conv_transpose(g, w), the products of g with the windows of x, sum(g)"""

    def of_input() -> ir.Value:
        window = Window(shape_of(op.weight)[2:], op.strides, op.pads, op.dilations)
        size, positions = _spatial(shape_of(op.input), op.layout), _spatial(shape_of(gradient), op.layout)
        rank = len(size)
        reached = [
            (positions[axis] - 1) * op.strides[axis] + window.extents[axis] - op.pads[axis] - op.pads[axis + rank]
            for axis in range(rank)
        ]
        padding = tuple(whole - part for whole, part in zip(size, reached, strict=True))
        return ConvTransposeOp(gradient, op.weight, None, output_padding=padding, **op.attribute_values()).result

    return of_input, lambda: _of_weight(op, op.input, gradient), lambda: _of_bias(op, gradient)


@DERIVATIVE.attach(ConvTransposeOp)
def transposed_convolution(op: ConvTransposeOp, gradient: ir.Value) -> Gradients:
    """conv(g, w), the products of x with the windows of g, sum(g)"""

    def of_input() -> ir.Value:
        attributes = op.attribute_values()
        del attributes["output_padding"]  # which a convolution does not have
        return ConvOp(gradient, op.weight, None, **attributes).result

    return of_input, lambda: _of_weight(op, gradient, op.input), lambda: _of_bias(op, gradient)


def _spatial(shape: Shape, layout: str) -> Shape:
    return shape[2:] if layout == CHANNELS_FIRST else shape[1:-1]


def _of_bias(op: ConvOp | ConvTransposeOp, gradient: ir.Value) -> ir.Value:
    rank = len(shape_of(gradient))
    channel = 1 if op.layout == CHANNELS_FIRST else rank - 1
    return total(gradient, [axis for axis in range(rank) if axis != channel], keepdims=False)


def _of_weight(op: ConvOp | ConvTransposeOp, image: ir.Value, at: ir.Value) -> ir.Value:
    """[rows, columns / group, spatial...]: the sums of products of `at` [.., rows] with windows of `image`.

    `at` has one element for each position of the window, and `image` the elements that the window reads. All images
    are one matrix with a row for each position, so that each group is one product of two matrices.
    """
    shape = shape_of(op.weight)
    rows, columns, kernel = shape[0], shape[1], shape[2:]
    image, at = _channels_last(image, op.layout), _channels_last(at, op.layout)
    if op.group == 1:
        return reshape(_of_taps(op, image, at, kernel), shape)
    windows = _windows(op, _padded(op, image, shape_of(at)[1:-1], kernel), shape_of(at)[1:-1], kernel)
    positions = count(shape_of(at)[:-1])
    if columns == 1 and rows == op.group:  # depthwise
        products = [_products(window, at) for window in windows]
        return reshape(transpose(concat(products, 0), (1, 0)), shape)
    per_group = rows // op.group
    left = transpose(reshape(at, (positions, op.group, per_group)), (1, 2, 0))
    parts = [matmul(left, transpose(reshape(window, (positions, op.group, columns)), (1, 0, 2))) for window in windows]
    found = concat([reshape(item, (rows, columns, 1)) for item in parts], 2)
    return reshape(found, shape)


def _of_taps(op: ConvOp | ConvTransposeOp, image: ir.Value, at: ir.Value, kernel: Sequence[int]) -> ir.Value:
    """[rows, columns, taps]: the sums of products of `at` with each tap's elements of an image."""
    places, rows = shape_of(at)[1:-1], shape_of(at)[-1]
    if _is_tiled(op, image, places, kernel):
        windows = _tiles(image, places, kernel)
    else:
        padded = _padded(op, image, places, kernel)
        if op.strides[0] == 1 and _SHARE * places[0] > rows * (kernel[0] - 1) > 0:
            return transpose(_by_lines(op, padded, at, kernel), (0, 2, 1))
        windows = _joined(_windows(op, padded, places, kernel))
    positions, taps, columns = count(shape_of(at)[:-1]), count(kernel), shape_of(image)[-1]
    # Either the windows or the products are moved, whichever are fewer.
    moves_windows = positions < rows and taps > 1
    if moves_windows:
        by_column = transpose(reshape(windows, (positions, taps, columns)), (0, 2, 1))
        windows = reshape(by_column, (positions, columns * taps))
    found = product_of_columns(reshape(at, (positions, rows)), windows)
    if moves_windows:
        return reshape(found, (rows, columns, taps))
    return transpose(reshape(found, (rows, taps, columns)), (0, 2, 1))


def _products(window: ir.Value, at: ir.Value) -> ir.Value:
    """[1, channels]: the sums of products of two images."""
    rank = len(shape_of(at))
    return reshape(total(mul(window, at), range(rank - 1), keepdims=False), (1, shape_of(at)[-1]))


def _by_lines(op: ConvOp | ConvTransposeOp, padded: ir.Value, at: ir.Value, kernel: Sequence[int]) -> ir.Value:
    """[rows, taps, columns]: the products for each line of the kernel, whose windows lie one line of the image apart.

    `at` gets lines of zeros until it is as high as the padded image. Then the windows of line k of the kernel, over all
    images, are the matrix of those of line 0 without its first k lines: only windows of one line are written out.
    """
    batch, columns = shape_of(padded)[0], shape_of(padded)[-1]
    rows, height = shape_of(at)[-1], shape_of(at)[1]
    lines = height + (kernel[0] - 1) * op.dilations[0]
    windows = _joined(_windows(op, padded, (lines, *shape_of(at)[2:-1]), (1, *kernel[1:])))
    line = count(shape_of(at)[2:-1])
    number = ((batch - 1) * lines + height) * line
    rank = len(shape_of(at))
    filled = pad(at, (0,) * rank, (0, lines - height, *(0,) * (rank - 2)))
    left = part(reshape(filled, (batch * lines * line, rows)), (0, 0), (number, rows))
    taps, width = count(kernel[1:]), shape_of(windows)[1]
    found = []
    for index in range(kernel[0]):
        first = index * op.dilations[0] * line
        right = part(windows, (first, 0), (first + number, width))
        found.append(reshape(product_of_columns(left, right), (rows, taps, columns)))
    return concat(found, 1)


def _is_tiled(op: ConvOp | ConvTransposeOp, image: ir.Value, positions: Sequence[int], kernel: Sequence[int]) -> bool:
    """Returns whether windows lie side by side and fill the image, as those of the patches of vision transformers."""
    whole = [size * extent for size, extent in zip(positions, kernel, strict=True)]
    fills = list(shape_of(image)[1:-1]) == whole and not any(op.pads)
    return fills and tuple(op.strides) == tuple(kernel) and set(op.dilations) == {1}


def _tiles(image: ir.Value, positions: Sequence[int], kernel: Sequence[int]) -> ir.Value:
    """[positions, taps * columns]: as `_joined`, for windows side by side."""
    shape, rank = shape_of(image), len(kernel)
    split = reshape(
        image, (shape[0], *(size for pair in zip(positions, kernel, strict=True) for size in pair), shape[-1])
    )
    moved = transpose(split, (0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1))
    return reshape(moved, (shape[0] * count(positions), count(kernel) * shape[-1]))


def _joined(windows: Sequence[ir.Value]) -> ir.Value:
    """[positions, taps * columns]: a row for each position, with the elements of all windows there."""
    shape = shape_of(windows[0])
    return concat([reshape(window, (count(shape[:-1]), shape[-1])) for window in windows], 1)


def _padded(op: ConvOp | ConvTransposeOp, image: ir.Value, positions: Sequence[int], kernel: Sequence[int]) -> ir.Value:
    """An image with the zeros around it that windows at the positions read."""
    rank, shape = len(kernel), shape_of(image)
    window = Window(tuple(kernel), op.strides, op.pads, op.dilations)
    reach = [(positions[axis] - 1) * op.strides[axis] + window.extents[axis] for axis in range(rank)]
    low = op.pads[:rank]
    high = [max(reach[axis] - low[axis] - shape[axis + 1], 0) for axis in range(rank)]
    return pad(image, (0, *low, 0), (0, *high, 0))


def _windows(
    op: ConvOp | ConvTransposeOp, padded: ir.Value, positions: Sequence[int], kernel: Sequence[int]
) -> list[ir.Value]:
    """For each tap of the kernel, the elements [batch, positions..., channels] of a padded image that it reads."""
    shape, found = shape_of(padded), []
    for tap in itertools.product(*map(range, kernel)):
        starts = [index * step for index, step in zip(tap, op.dilations, strict=True)]
        stops = [
            start + (number - 1) * stride + 1
            for start, number, stride in zip(starts, positions, op.strides, strict=True)
        ]
        found.append(part(padded, (0, *starts, 0), (shape[0], *stops, shape[-1]), (1, *op.strides, 1)))
    return found


def _channels_last(value: ir.Value, layout: str) -> ir.Value:
    rank = len(shape_of(value))
    return transpose(value, [0, *range(2, rank), 1]) if layout == CHANNELS_FIRST else value
