"""Images assembled from patches, and sampling grids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import PadOp
from .....support.wording import quantity
from ....build import dtype, emit, gathered, integers, reshaped, shape, summed, transposed
from ....errors import NodeError
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("Col2Im", since=18)
def col2im(node: Node, columns: ir.Value, image: ir.Value, block: ir.Value) -> ir.Value:
    """Col2Im: each element is the sum of the patch elements at its position; the positions are constant.

    [n, c * k, l] --> [n, c, k * l, and a zero] at [term, element] --> [n, c, element]
    """
    sizes, kernel = node.integers(image, "image_shape"), node.integers(block, "block_shape")
    count = len(sizes)
    strides, dilations = (node.attribute(name, (1,) * count) for name in ("strides", "dilations"))
    pads = node.attribute("pads", (0,) * (2 * count))
    batch, depth, places = node.static(shape(columns), "the extents of the patches")
    extents = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    starts = [
        (size + low + high - extent) // stride + 1
        for size, low, high, extent, stride in zip(sizes, pads[:count], pads[count:], extents, strides, strict=True)
    ]
    taps = math.prod(kernel)
    if depth % taps or places != math.prod(starts):
        raise NodeError(f"has {places} patches of {depth} elements, but must have {math.prod(starts)} of {taps}")
    flat = reshaped(columns, integers([batch, depth // taps, taps * places]))
    with_zero = emit(PadOp, flat, low=(0, 0, 0), high=(0, 0, 1))
    lines = [
        np.add.outer(np.arange(size) * step, np.arange(start) * stride - low)
        for size, step, start, stride, low in zip(kernel, dilations, starts, strides, pads[:count], strict=True)
    ]
    table = _terms(lines, sizes)
    terms = gathered(with_zero, node.table("terms", table), 2)
    return reshaped(summed(terms, 2), integers([batch, depth // taps, *sizes]))


def _terms(lines: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """The indices [term, element] of the patch elements that sum to each element of the image.

    Args:
        lines: for each dimension, the position of each tap [tap, patch].
        sizes: the extents of the image. An element with fewer terms than others is padded with the index of the zero.
    """
    count = len(lines)
    taps, places = [len(line) for line in lines], [line.shape[1] for line in lines]
    pixel, inside = np.zeros((1,) * (2 * count), np.int64), np.ones((1,) * (2 * count), np.bool_)
    for axis, (line, size) in enumerate(zip(lines, sizes, strict=True)):
        spread = [1] * (2 * count)
        spread[axis], spread[count + axis] = line.shape
        pixel = pixel * size + line.reshape(spread)
        inside = inside & ((line >= 0) & (line < size)).reshape(spread)
    shape = (*taps, *places)
    pixel, inside = (np.broadcast_to(item, shape).reshape(-1) for item in (pixel, inside))
    sources = np.flatnonzero(inside)
    order = np.argsort(pixel[sources], kind="stable")
    sources, targets = sources[order], pixel[sources][order]
    counts = np.bincount(targets, minlength=math.prod(sizes))
    numbers = np.arange(len(targets)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((max(counts.max(initial=0), 1), math.prod(sizes)), math.prod(shape))
    table[numbers, targets] = sources
    return table


@imports("AffineGrid", since=20)
def affine_grid(node: Node, theta: ir.Value, size: ir.Value) -> ir.Value:
    """AffineGrid: the points of a grid from -1 to 1, the last dimension first, times one matrix per image."""
    batch, _, *extents = node.integers(size, "size")
    rows = node.static(shape(theta)[1:], "the extents of the matrices")
    if rows != (len(extents), len(extents) + 1):
        raise NodeError(f"has matrices of {'x'.join(map(str, rows))} for {quantity(len(extents), 'dimension')}")
    is_aligned = bool(node.attribute("align_corners"))
    lines = [_points(extent, is_aligned) for extent in extents]
    planes = [*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(extents)]
    points = np.stack(planes, -1).reshape(-1, len(planes)).astype(dtype(theta))
    grid = emit(MatmulOp, node.importer.weight(f"{node.name}.points", points[None]), transposed(theta, (0, 2, 1)))
    return reshaped(grid, integers([batch, *extents, len(extents)]))


def _points(extent: int, is_aligned: bool) -> np.ndarray:
    if is_aligned:
        return np.linspace(-1, 1, extent)
    return (np.arange(extent) * 2 + 1) / extent - 1
