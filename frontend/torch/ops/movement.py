"""Views and other movements of elements: reshapes, permutations, slices, concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import (
    DynamicBroadcastToOp,
    DynamicPadOp,
    DynamicSliceOp,
    ExpandDimsOp,
    ScatterOp,
    SqueezeOp,
    TileOp,
)
from ....dialects.stepwell.shape import RangeOp
from ...build import (
    cast,
    chained,
    dims_of,
    dtype,
    emit,
    gathered,
    integers,
    joined,
    known_dim,
    line_of,
    part_along,
    rank,
    reshaped,
    scalar,
    shape,
    shape_of,
    transposed,
)
from ...errors import UnsupportedError
from ...index_arithmetic import extent
from ..node import AtenNode, axes_of, axis_of
from ..registry import imports
from ..symbols import AtenSize, expression_of, extents, scalar_size

_END = np.iinfo(np.int64).max


@imports("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten._reshape_copy.default")
def view(node: AtenNode, input: ir.Value) -> ir.Value:
    """The same elements in another shape."""
    return reshaped(input, node.shape())


@imports("aten.permute.default")
def permute(node: AtenNode, input: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Dimensions in another order."""
    return transposed(input, [axis % max(rank(input), 1) for axis in dims])


@imports("aten.t.default")
def transposed_matrix(node: AtenNode, input: ir.Value) -> ir.Value:
    """Rows as columns."""
    return transposed(input, (1, 0)) if rank(input) == 2 else input


@imports("aten.transpose.int")
def swap(node: AtenNode, input: ir.Value, dim0: int, dim1: int) -> ir.Value:
    """Two dimensions exchanged."""
    order = list(range(rank(input)))
    if not order:
        return input
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return transposed(input, order)


@imports("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default")
def squeeze(node: AtenNode, input: ir.Value, dim: Any = None) -> ir.Value:
    """The tensor without dimensions of extent 1; others that are named stay."""
    known = node.argument("self").shape
    axes = tuple(axis for axis in axes_of(input, dim) if known[axis] == 1)
    named_none = isinstance(dim, list) and not dim
    return emit(SqueezeOp, input, axes=axes) if axes and not named_none else input


@imports("aten.unsqueeze.default")
def unsqueeze(node: AtenNode, input: ir.Value, dim: int) -> ir.Value:
    """A new dimension of extent 1."""
    return emit(ExpandDimsOp, input, axes=(dim % (rank(input) + 1),))


@imports("aten.expand.default")
def expand(node: AtenNode, input: ir.Value) -> ir.Value:
    """The tensor repeated along its extents of 1 and new dimensions."""
    return broadcast(input, node.sizes())


def broadcast(value: ir.Value, sizes: Sequence[AtenSize]) -> ir.Value:
    """A tensor broadcast to a shape; returned unchanged if it has that shape."""
    if tuple(sizes) == shape(value):
        return value
    return emit(DynamicBroadcastToOp, value, extents(sizes))


@imports("aten.repeat.default")
def repeat(node: AtenNode, input: ir.Value, repeats: Sequence[AtenSize]) -> ir.Value:
    """The tensor repeated along each dimension; missing dimensions have extent 1."""
    missing = len(repeats) - rank(input)
    value = emit(ExpandDimsOp, input, axes=tuple(range(missing))) if missing else input
    counts = [count for count in repeats if isinstance(count, int)]
    if len(counts) == len(repeats):
        return emit(TileOp, value, repeats=tuple(counts)) if any(count != 1 for count in counts) else value
    # [a] --> [1, a] --> [n, a] --> [n * a], along each dimension
    spread = emit(ExpandDimsOp, value, axes=tuple(range(0, 2 * rank(value), 2)))
    sizes: list[AtenSize] = []
    for axis, count in enumerate(repeats):
        sizes += [count, extent(value, axis)]
    return reshaped(emit(DynamicBroadcastToOp, spread, extents(sizes)), node.shape())


@imports("aten.slice.Tensor")
def slice_tensor(
    node: AtenNode, input: ir.Value, dim: int, start: AtenSize | None, end: AtenSize | None, step: int
) -> ir.Value:
    """Every `step`-th element from a start up to and excluding an end; the tensor itself if these are all elements.

    A guard of torch may say so where bounds are not known, such as the window of a cache that is not full yet.
    """
    axis = axis_of(input, dim)
    given, made = (expression_of(value.shape[axis]) for value in (node.argument("self"), node.results[0]))
    if given == made and step == 1:
        return input
    bounds = (extents([0 if start is None else start]), extents([_END if end is None else end]))
    return emit(DynamicSliceOp, input, *bounds, integers([axis]), integers([step]))


@imports("aten.select.int")
def select(node: AtenNode, input: ir.Value, dim: int, index: AtenSize) -> ir.Value:
    """The slice at an index, without its dimension."""
    axis = axis_of(input, dim)
    if isinstance(index, ir.Value):
        return gathered(input, index, axis)
    stop = _END if index == -1 else index + 1
    one = emit(DynamicSliceOp, input, integers([index]), integers([stop]), integers([axis]))
    return emit(SqueezeOp, one, axes=(axis,))


@imports("aten.split_with_sizes.default", "aten.split_with_sizes_copy.default")
def split(node: AtenNode, input: ir.Value, split_sizes: Sequence[AtenSize], dim: int) -> tuple[ir.Value, ...]:
    """Consecutive parts along a dimension."""
    axis, start, parts = axis_of(input, dim), scalar_size(0), []
    for size in split_sizes:
        stop = emit(ew.AddOp, start, scalar_size(size))
        bounds = (emit(ExpandDimsOp, start, axes=(0,)), emit(ExpandDimsOp, stop, axes=(0,)))
        parts.append(emit(DynamicSliceOp, input, *bounds, integers([axis])))
        start = stop
    return tuple(parts)


@imports("aten.cat.default")
def cat(node: AtenNode, tensors: Sequence[ir.Value], dim: int) -> ir.Value:
    """Tensors one after another along a dimension; empty vectors are left out."""
    kind = node.dtype()
    kept = [value for value in tensors if shape(value) != (0,) or len(node.results[0].shape) == 1]
    return joined([cast(value, kind) for value in kept], axis_of(kept[0], dim))


@imports("aten.diagonal.default")
def diagonal(node: AtenNode, input: ir.Value, offset: int, dim1: int, dim2: int) -> ir.Value:
    """The diagonal of two dimensions as the last one: every (columns + 1)-th element of the flat matrix.

    [..., n, m] --> [..., n * m] --> [..., k]
    """
    flat, _, start, count, step = _flat_diagonal(input, offset, dim1, dim2)
    stop = start + (count - 1) * step + 1 if count else start
    return emit(DynamicSliceOp, flat, *map(integers, ([start], [stop], [rank(flat) - 1], [step])))


@imports("aten.diagonal_scatter.default")
def diagonal_scatter(node: AtenNode, input: ir.Value, src: ir.Value, offset: int, dim1: int, dim2: int) -> ir.Value:
    """A tensor with a diagonal replaced."""
    flat, order, start, count, step = _flat_diagonal(input, offset, dim1, dim2)
    if count:
        indices = integers([start + step * number for number in range(count)])
        flat = _put(flat, cast(src, dtype(input)), rank(flat) - 1, indices)
    moved = reshaped(flat, shape_of(transposed(input, order)))
    return transposed(moved, [order.index(axis) for axis in range(rank(input))])


def _flat_diagonal(input: ir.Value, offset: int, dim1: int, dim2: int) -> tuple[ir.Value, list[int], int, int, int]:
    """Flat matrices, the order of dimensions before, and first place, number and distance of diagonal elements.

    [..., n, m] --> [..., n * m]
    """
    first, second = axis_of(input, dim1), axis_of(input, dim2)
    order = [*(axis for axis in range(rank(input)) if axis not in (first, second)), first, second]
    matrix = transposed(input, order)
    rows, columns = (known_dim(input, axis, "the extents of a matrix with a diagonal") for axis in (first, second))
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = reshaped(matrix, joined([dims_of(matrix, 0, len(order) - 2), integers([rows * columns])]))
    return flat, order, max(offset, 0) - min(offset, 0) * columns, count, columns + 1


@imports("aten.unfold.default")
def unfold(node: AtenNode, input: ir.Value, dimension: int, size: int, step: int) -> ir.Value:
    """Windows along a dimension, whose elements are in a new last one: [a, n, b] --> [a, windows, b, size]"""
    if rank(input) == 0:
        return reshaped(input, integers([1]))
    axis = axis_of(input, dimension)
    starts = _multiples(node.sizes()[axis], step, 1)
    windows = gathered(input, emit(ew.AddOp, starts, integers(range(size))), axis)
    return transposed(windows, [other for other in range(rank(windows)) if other != axis + 1] + [axis + 1])


@imports("aten.as_strided.default")
def as_strided(
    node: AtenNode,
    input: ir.Value,
    size: Sequence[AtenSize],
    stride: Sequence[AtenSize],
    storage_offset: AtenSize | None,
) -> ir.Value:
    """Elements of a contiguous tensor at multiples of strides."""
    return gathered(line_of(input), _strided_places(node, size, stride, storage_offset), 0)


@imports("aten.as_strided_scatter.default")
def as_strided_scatter(
    node: AtenNode,
    input: ir.Value,
    src: ir.Value,
    size: Sequence[AtenSize],
    stride: Sequence[AtenSize],
    storage_offset: AtenSize | None,
) -> ir.Value:
    """A contiguous tensor with the elements at multiples of strides replaced."""
    indices = _strided_places(node, size, stride, storage_offset)
    made = emit(ScatterOp, line_of(input), line_of(indices), line_of(cast(src, dtype(input))), axis=0)
    return reshaped(made, shape_of(input))


def _strided_places(
    node: AtenNode, size: Sequence[AtenSize], stride: Sequence[AtenSize], storage_offset: AtenSize | None
) -> ir.Value:
    if not node.argument("self").is_contiguous():
        raise UnsupportedError("views memory of a tensor that is not contiguous, which is not supported")
    if any(isinstance(item, ir.Value) for item in (*size, *stride, storage_offset)):
        return chained(
            ew.AddOp,
            [scalar_size(storage_offset or 0), *map(_multiples, size, stride, reversed(range(len(size))))],
        )
    numbers: Any = [*size, *stride, storage_offset or 0]
    indices = np.full(tuple(numbers[: len(size)]), numbers[-1], np.int64)
    for axis, (count, step) in enumerate(zip(numbers[: len(size)], numbers[len(size) : -1], strict=True)):
        indices += (np.arange(count) * step).reshape(-1, *[1] * (len(size) - 1 - axis))
    return node.importer.weight(f"{node.name}.places", indices)


def _multiples(count: AtenSize, step: AtenSize, trailing: int) -> ir.Value:
    """The first multiples of a number, in a column with `trailing` dimensions behind it."""
    end, factor = scalar_size(count), scalar_size(step)
    line = emit(ew.MulOp, emit(RangeOp, scalar(0, end), end, scalar(1, end)), factor)
    return emit(ExpandDimsOp, line, axes=tuple(range(1, trailing + 1))) if trailing else line


@imports("aten.resize.default")
def resize(node: AtenNode, input: ir.Value) -> ir.Value:
    """The first elements in another shape; further ones, which torch leaves undefined, are 0."""
    line = line_of(input)
    count, have = (chained(ew.MulOp, [scalar_size(1), *map(scalar_size, sizes)]) for sizes in _both_sizes(node, input))
    missing = emit(ew.MaximumOp, emit(ew.SubOp, count, have), scalar(0, count))
    longer = emit(DynamicPadOp, line, extents([0, missing]), scalar(0, line))
    first = emit(DynamicSliceOp, longer, integers([0]), extents([count]), integers([0]))
    return reshaped(first, node.shape())


def _both_sizes(node: AtenNode, input: ir.Value) -> tuple[list[AtenSize], list[AtenSize]]:
    return node.sizes(), [extent(input, axis) for axis in range(rank(input))]


@imports("aten.select_scatter.default")
def select_scatter(node: AtenNode, input: ir.Value, src: ir.Value, dim: int, index: AtenSize) -> ir.Value:
    """A tensor with the slice at an index replaced."""
    axis = axis_of(input, dim)
    row = cast(emit(ExpandDimsOp, src, axes=(axis,)), dtype(input))
    position = emit(ExpandDimsOp, scalar_size(index), axes=(0,))
    return _put(input, row, axis, position)


@imports("aten.slice_scatter.default")
def slice_scatter(
    node: AtenNode, input: ir.Value, src: ir.Value, dim: int, start: AtenSize | None, end: AtenSize | None, step: int
) -> ir.Value:
    """A tensor with a slice replaced."""
    axis = axis_of(input, dim)
    src = cast(src, dtype(input))
    first, total = 0 if start is None else start, shape(input)[axis]
    count = shape(src)[axis]
    if isinstance(first, int) and isinstance(total, int) and isinstance(count, int):
        first = min(max(first + total, 0) if first < 0 else first, total)
        if step == 1:
            parts = [part_along(input, axis, 0, first), src, part_along(input, axis, first + count, total)]
            kept = [part for part in parts if shape(part)[axis] != 0]
            return joined(kept, axis) if kept else input
        return _put(input, src, axis, integers([first + step * number for number in range(count)]))
    steps = extent(src, axis)
    line = emit(RangeOp, scalar(0, steps), steps, scalar(1, steps))
    position = emit(ew.AddOp, emit(ew.MulOp, line, scalar(step, line)), _from_front(first, extent(input, axis)))
    return _put(input, src, axis, position)


def _from_front(start: AtenSize, count: ir.Value) -> ir.Value:
    """A start that may count from the end, as a number from 0 to `count`."""
    value = scalar_size(start)
    is_negative = emit(ew.LessOp, value, scalar(0, value))
    value = emit(ew.SelectOp, is_negative, emit(ew.AddOp, value, count), value)
    return emit(ew.MinimumOp, emit(ew.MaximumOp, value, scalar(0, value)), count)


def _put(input: ir.Value, updates: ir.Value, axis: int, indices: ir.Value) -> ir.Value:
    """A tensor with the slices at indices along an axis replaced."""
    order = [axis, *(other for other in range(rank(input)) if other != axis)]
    back = [order.index(other) for other in range(rank(input))]
    put = emit(ScatterOp, transposed(input, order), indices, transposed(updates, order), axis=0)
    return transposed(put, back)


@imports("aten.copy.default")
def copy(node: AtenNode, input: ir.Value, src: ir.Value) -> ir.Value:
    """The elements of another tensor in the shape and type of this one."""
    return broadcast(cast(src, dtype(input)), node.sizes())


@imports("aten.stack.default")
def stack(node: AtenNode, tensors: Sequence[ir.Value], dim: int) -> ir.Value:
    """Tensors one after another along a new dimension."""
    axis = dim % (rank(tensors[0]) + 1)
    return joined([emit(ExpandDimsOp, cast(value, node.dtype()), axes=(axis,)) for value in tensors], axis)


@imports("aten.unbind.int")
def unbind(node: AtenNode, input: ir.Value, dim: int) -> tuple[ir.Value, ...]:
    """The slices along a dimension, without it."""
    count = known_dim(input, axis_of(input, dim), "the extent of the dimension that is unbound")
    return tuple(select(node, input, dim, index) for index in range(count))


@imports("aten.pixel_shuffle.default")
def pixel_shuffle(node: AtenNode, input: ir.Value, upscale_factor: int) -> ir.Value:
    """Channels as additional pixels: [..., c * r * r, h, w] --> [..., c, h * r, w * r]"""
    return _shuffled(node, input, upscale_factor, is_inverse=False)


@imports("aten.pixel_unshuffle.default")
def pixel_unshuffle(node: AtenNode, input: ir.Value, downscale_factor: int) -> ir.Value:
    """Pixels of each block as channels: [..., c, h * r, w * r] --> [..., c * r * r, h, w]"""
    return _shuffled(node, input, downscale_factor, is_inverse=True)


def _shuffled(node: AtenNode, input: ir.Value, factor: int, is_inverse: bool) -> ir.Value:
    front = rank(input) - 3
    coarse = node.sizes() if is_inverse else [extent(input, axis) for axis in range(rank(input))]
    fine = [extent(input, axis) for axis in range(rank(input))] if is_inverse else node.sizes()
    batch = dims_of(input, 0, front)
    channels, (rows, columns), step = extents([fine[front]]), coarse[-2:], integers([factor])
    lead = list(range(front))
    if is_inverse:
        apart = joined([batch, channels, extents([rows]), step, extents([columns]), step])
        order = [*lead, front, front + 2, front + 4, front + 1, front + 3]
    else:
        apart = joined([batch, channels, step, step, extents([rows]), extents([columns])])
        order = [*lead, front, front + 3, front + 1, front + 4, front + 2]
    return reshaped(transposed(reshaped(input, apart), order), node.shape())
