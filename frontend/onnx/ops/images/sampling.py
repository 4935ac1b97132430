"""Sampling of images between their elements, at computed positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.elementwise import AddOp, DivOp, MulOp, SubOp
from .....dialects.stepwell.movement import ExpandDimsOp, ReverseOp, SampleOp
from .....dialects.types import is_float
from .....support.wording import quantity
from ....build import cast, dtype, emit, integers, rank, reshaped, scalar, shape, transposed
from ....errors import NodeError
from ...nodes.node import Node
from ...nodes.registry import imports
from ..parts.windows import NodeWindow, window_of

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@imports("GridSample", since=16)
def grid_sample(node: Node, input: ir.Value, grid: ir.Value) -> ir.Value:
    """GridSample: positions in a grid from -1 to 1, the last dimension of the image first."""
    mode = node.attribute("mode")
    mode, is_aligned = _MODES.get(mode, mode), bool(node.attribute("align_corners"))
    spatial = node.static(shape(input)[2:], "the extents of the images")
    if rank(grid) != rank(input) or node.static(shape(grid)[-1:], "the number of coordinates") != (len(spatial),):
        raise NodeError(f"must have a grid with {quantity(len(spatial), 'coordinate')} for each position")
    wide = cast(grid, np.float64 if dtype(grid) == np.float64 else np.float32)
    planes = transposed(emit(ReverseOp, wide, axes=(-1,)), (0, rank(grid) - 1, *range(1, rank(grid) - 1)))
    extents = np.array(spatial, dtype(wide)).reshape(-1, *[1] * len(spatial))
    positions = _from_grid(node, planes, extents, is_aligned)
    is_weighed = mode != "nearest" and not is_float(dtype(input))
    image = cast(input, np.float64 if dtype(input).itemsize > 2 else np.float32) if is_weighed else input
    padding = node.attribute("padding_mode")
    taken = emit(SampleOp, image, positions, mode=mode, padding=padding, about_edges=is_aligned)
    return cast(taken, dtype(input))


def _from_grid(node: Node, grid: ir.Value, extents: np.ndarray, is_aligned: bool) -> ir.Value:
    """Positions in elements, rounded exactly where ONNX rounds, as this may decide which element is nearest."""
    moved, one, two = emit(AddOp, grid, scalar(1, grid)), scalar(1, grid), scalar(2, grid)
    if is_aligned:
        return emit(MulOp, emit(DivOp, moved, two), node.importer.weight(f"{node.name}.lasts", extents - 1))
    scaled = emit(MulOp, moved, node.importer.weight(f"{node.name}.extents", extents))
    return emit(DivOp, emit(SubOp, scaled, one), two)


@imports("DeformConv", since=19)
def deform_conv(
    node: Node,
    input: ir.Value,
    weight: ir.Value,
    offset: ir.Value,
    bias: ir.Value | None = None,
    mask: ir.Value | None = None,
) -> ir.Value:
    """DeformConv: samples the kernel's elements at shifted positions, then multiplies matrices.

    [n, c, h, w] at [n, 2, k, p] --> [n, c, k, p] --> [n, group, c / group * k, p] --> [n, o, p]
    """
    batch, channels, *spatial = node.static(shape(input), "the extents of the input")
    features, depth, *kernel = node.static(shape(weight), "the extents of the kernel")
    window = window_of(node, input, tuple(kernel))
    group, parts, taps = node.attribute("group"), node.attribute("offset_group"), math.prod(kernel)
    counts = node.static(shape(offset), "the extents of the offsets")
    dimensions, places = len(kernel), counts[2:]
    if channels % parts or depth * group != channels or features % group:
        raise NodeError(
            f"has {quantity(channels, 'channel')} for {group} groups of {depth}, and {parts} groups of offsets"
        )
    if counts[:2] != (batch, parts * taps * dimensions):
        raise NodeError(f"must have {parts * taps * dimensions} offsets for each position, but has {counts[1]}")
    node.ignore("kernel_shape")
    kind = np.float64 if dtype(offset) == np.float64 else np.float32
    moves = reshaped(cast(offset, kind), integers([batch * parts, taps, dimensions, *places]))
    moves = transposed(moves, (0, 2, 1, *range(3, 3 + len(places))))
    start = _kernel_positions(window, node.attribute("pads", (0,) * (2 * dimensions)), places)
    positions = emit(AddOp, moves, node.importer.weight(f"{node.name}.positions", start.astype(kind)))
    images = reshaped(input, integers([batch * parts, channels // parts, *spatial]))
    met = emit(SampleOp, images, positions, mode="linear", padding="zeros")
    if mask is not None:
        met = emit(MulOp, met, reshaped(mask, integers([batch * parts, 1, taps, *places])))
    columns = reshaped(met, integers([batch, group, depth * taps, math.prod(places)]))
    rows = reshaped(weight, integers([1, group, features // group, depth * taps]))
    result = reshaped(emit(MatmulOp, rows, columns), integers([batch, features, *places]))
    return (
        result if bias is None else emit(AddOp, result, emit(ExpandDimsOp, bias, axes=tuple(range(1, dimensions + 1))))
    )


def _kernel_positions(window: NodeWindow, pads: Sequence[int], places: Sequence[int]) -> np.ndarray:
    """The positions of the kernel's taps before they are shifted: [1, dimension, tap, position...]."""
    dimensions = len(window.kernel)
    taps, starts = np.indices(window.kernel).reshape(dimensions, -1), np.indices(places)
    lines = [
        np.add.outer(taps[axis] * window.dilations[axis], starts[axis] * window.strides[axis] - pads[axis])
        for axis in range(dimensions)
    ]
    return np.stack(lines)[None]
