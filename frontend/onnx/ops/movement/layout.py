"""Rearranging elements: shapes, permutations, concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from .....dialects.core import OpError
from .....dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp, ReshapeOp, SqueezeOp, TileOp
from .....support.wording import quantity
from ....build import (
    as_shape,
    dims_of,
    emit,
    flattened,
    integers,
    joined,
    known_dim,
    normal_axis,
    rank,
    reshaped,
    shape,
    transposed,
)
from ....errors import AttributeFault, NeedsShapes
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("Reshape")
def reshape(node: Node, input: ir.Value, dims: ir.Value) -> ir.Value:
    """Reshape: 0 keeps a dimension unless `allowzero`, and a -1 is inferred from the others."""
    return emit(DynamicReshapeOp, input, as_shape(dims), allow_zero=bool(node.attribute("allowzero")))


@imports("Flatten")
def flatten(node: Node, input: ir.Value) -> ir.Value:
    """Flatten to a matrix; if the axis is the rank, to a single column."""
    axis = node.attribute("axis")
    return flattened(input, axis if axis == rank(input) else normal_axis(axis, rank(input)))


@imports("Transpose")
def transpose(node: Node, input: ir.Value) -> ir.Value:
    """Transpose; without a permutation the dimensions are reversed."""
    order = node.attribute("perm", tuple(reversed(range(rank(input)))))
    if sorted(order) != list(range(rank(input))):
        raise AttributeFault(
            f"attribute 'perm' must be a permutation of {rank(input)} dimensions, but is {list(order)}"
        )
    return transposed(input, order)


@imports("Squeeze")
def squeeze_by_attribute(node: Node, input: ir.Value) -> ir.Value:
    """Squeeze with the axes as an attribute (opset 1)."""
    return _squeeze(input, node.attribute("axes"))


@imports("Squeeze", since=13)
def squeeze_by_input(node: Node, input: ir.Value, axes: ir.Value | None = None) -> ir.Value:
    """Squeeze with the axes as an input (opset 13)."""
    return _squeeze(input, None if axes is None else node.integers(axes, "axes"))


def _squeeze(input: ir.Value, axes: Sequence[int] | None) -> ir.Value:
    if axes is not None:
        return emit(SqueezeOp, input, axes=tuple(axes)) if axes else input
    if not all(isinstance(dim, int) for dim in shape(input)):
        raise NeedsShapes("without axes, which dimensions are 1 must be known")
    ones = tuple(axis for axis, dim in enumerate(shape(input)) if dim == 1)
    return emit(SqueezeOp, input, axes=ones) if ones else input


@imports("Unsqueeze")
def unsqueeze_by_attribute(node: Node, input: ir.Value) -> ir.Value:
    """Unsqueeze with the axes as an attribute (opset 1)."""
    return _unsqueeze(input, node.attribute("axes"))


@imports("Unsqueeze", since=13)
def unsqueeze_by_input(node: Node, input: ir.Value, axes: ir.Value) -> ir.Value:
    """Unsqueeze with the axes as an input (opset 13)."""
    return _unsqueeze(input, node.integers(axes, "axes"))


def _unsqueeze(input: ir.Value, axes: Sequence[int]) -> ir.Value:
    return emit(ExpandDimsOp, input, axes=tuple(axes)) if axes else input


@imports("Concat")
def concat(node: Node, *inputs: ir.Value) -> ir.Value:
    """Concat, as a chain of binary concats."""
    axis = normal_axis(node.attribute("axis"), rank(inputs[0]))
    return joined(inputs, axis)


@imports("Tile")
def tile(node: Node, input: ir.Value, repeats: ir.Value) -> ir.Value:
    """Tile."""
    return emit(TileOp, input, repeats=node.integers(repeats, "repeats"))


@imports("DepthToSpace")
def depth_to_space(node: Node, input: ir.Value) -> ir.Value:
    """DepthToSpace: blocks of channels become blocks of pixels.

    [n, b * b * c, h, w] --> [n, b, b, c, h, w] --> [n, c, h, b, w, b] --> [n, c, h * b, w * b]
    """
    block = node.attribute("blocksize")
    channels, height, width = _image(input)
    if not isinstance(channels, int):
        raise NeedsShapes("the number of channels must be known")
    if node.attribute("mode", "DCR") == "DCR":
        split, order = [0, block, block, _divided(channels, block * block), height, width], (0, 3, 4, 1, 5, 2)
    else:
        split, order = [0, _divided(channels, block * block), block, block, height, width], (0, 1, 4, 2, 5, 3)
    parts = transposed(_with_batch(input, split), order)
    return _with_batch(parts, [0, channels // (block * block), height * block, width * block])


@imports("SpaceToDepth")
def space_to_depth(node: Node, input: ir.Value) -> ir.Value:
    """SpaceToDepth: blocks of pixels become channels.

    [n, c, h * b, w * b] --> [n, c, h, b, w, b] --> [n, b, b, c, h, w] --> [n, b * b * c, h, w]

    With mode CRD (opset 28) the channels come before the positions in a block: [n, c, b, b, h, w].
    """
    order = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    block = node.attribute("blocksize")
    channels, height, width = _image(input)
    split = [0, channels, _divided(height, block), block, _divided(width, block), block]
    parts = transposed(_with_batch(input, split), order)
    return _with_batch(parts, [0, channels * block * block, height // block, width // block])


def _image(input: ir.Value) -> Sequence[Any]:
    """The numbers of channels, rows and columns: numbers, or expressions over sizes."""
    if rank(input) != 4:
        raise OpError(f"takes images of rank 4, but the input has rank {rank(input)}")
    return [known_dim(input, axis, "the extents of channels, height and width") for axis in (1, 2, 3)]


def _divided(extent: Any, block: int) -> Any:
    """A dimension divided by the size of its blocks. The reshape requires that nothing is left over at any size."""
    if block < 1 or (isinstance(extent, int) and extent % block):
        raise OpError(f"{quantity(extent, 'element')} cannot be split into blocks of {block}")
    return extent // block


def _with_batch(value: ir.Value, dims: Sequence[Any]) -> ir.Value:
    """Reshapes `value` to `dims`, except that it keeps its own first dimension."""
    if not all(isinstance(dim, int) for dim in dims):
        batch = known_dim(value, 0, "the number of images")
        return emit(ReshapeOp, value, shape=(batch, *dims[1:]))
    return reshaped(value, joined([dims_of(value, 0, 1), integers(dims[1:])]))
