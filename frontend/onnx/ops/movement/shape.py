"""Shapes as data: reading shapes, and making tensors from them."""

from __future__ import annotations

import numpy as np
from mlir import ir

from .....dialects.dims import product
from .....dialects.stepwell.elementwise import AddOp, EqualOp, GreaterEqualOp, LessEqualOp, LessOp, SelectOp
from .....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp
from .....dialects.stepwell.shape import FillOp, RangeOp, SizeOfOp
from ....build import (
    as_shape,
    cast,
    constant,
    dims_of,
    dtype,
    emit,
    gathered,
    integers,
    normal_axis,
    rank,
    reshaped,
    scalar,
    shape,
)
from ....errors import AttributeFault
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("Shape")
def shape_of(node: Node, input: ir.Value) -> ir.Value:
    """Shape, or (opset 15) a part of it; bounds out of range are clipped."""
    start, stop, _ = slice(node.attribute("start", 0), node.attribute("end")).indices(rank(input))
    return dims_of(input, start, max(start, stop))


@imports("Size")
def size_of(node: Node, input: ir.Value) -> ir.Value:
    """Size: the number of elements."""
    count = product(shape(input))
    return constant(np.array(count, np.int64)) if isinstance(count, int) else emit(SizeOfOp, input)


@imports("ConstantOfShape")
def constant_of_shape(node: Node, dims: ir.Value) -> ir.Value:
    """ConstantOfShape."""
    value = node.attribute("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise AttributeFault(f"attribute 'value' must have one element, but has {value.size}")
    return emit(FillOp, as_shape(dims), value=value.reshape(1))


@imports("Range")
def arange(node: Node, start: ir.Value, limit: ir.Value, delta: ir.Value) -> ir.Value:
    """Range."""
    return emit(RangeOp, *(_as_scalar(value) for value in (start, limit, delta)))


def _as_scalar(value: ir.Value) -> ir.Value:
    """Converts to a scalar, as exporters may write a list of one element instead."""
    return value if rank(value) == 0 else reshaped(value, integers([]))


@imports("Expand")
def expand(node: Node, input: ir.Value, dims: ir.Value) -> ir.Value:
    """Expand: broadcasts with a shape."""
    return emit(DynamicBroadcastToOp, input, as_shape(dims))


@imports("OneHot")
def one_hot(node: Node, indices: ir.Value, depth: ir.Value, values: ir.Value) -> ir.Value:
    """OneHot: compares the indices with 0 to depth - 1 along a new axis; a negative index counts from the end."""
    axis = normal_axis(node.attribute("axis"), rank(indices) + 1)
    count = cast(_as_scalar(depth), np.int64)
    places = emit(RangeOp, scalar(0, count), count, scalar(1, count))
    wanted = cast(indices, np.int64)
    wanted = emit(SelectOp, emit(LessOp, wanted, scalar(0, wanted)), emit(AddOp, wanted, count), wanted)
    trailing = tuple(range(1, rank(indices) - axis + 1))
    places = emit(ExpandDimsOp, places, axes=trailing) if trailing else places
    hot = emit(EqualOp, emit(ExpandDimsOp, wanted, axes=(axis,)), places)
    off, on = (gathered(values, constant(np.array(index)), 0) for index in (0, 1))
    return emit(SelectOp, hot, on, off)


@imports("Trilu")
def triangle(node: Node, input: ir.Value, k: ir.Value | None = None) -> ir.Value:
    """Trilu: keeps the elements on and above (or below) a diagonal, by comparing row and column indices."""
    upper = node.attribute("upper")
    offset = scalar(0, constant(np.array(0, np.int64))) if k is None else _as_scalar(k)
    rows, columns = (_numbers(input, axis) for axis in (-2, -1))
    rows = emit(AddOp, emit(ExpandDimsOp, rows, axes=(1,)), offset)
    kept = emit(GreaterEqualOp if upper else LessEqualOp, columns, rows)
    return emit(SelectOp, kept, input, constant(np.zeros((), dtype(input))))


def _numbers(value: ir.Value, axis: int) -> ir.Value:
    """0, 1, ... up to the extent of one axis."""
    start = rank(value) + axis
    extent = _as_scalar(dims_of(value, start, start + 1))
    return emit(RangeOp, scalar(0, extent), extent, scalar(1, extent))


@imports("EyeLike")
def eye_like(node: Node, input: ir.Value) -> ir.Value:
    """EyeLike: ones on a diagonal of a matrix."""
    rows, columns = (_numbers(input, axis) for axis in (-2, -1))
    rows = emit(AddOp, emit(ExpandDimsOp, rows, axes=(1,)), scalar(node.attribute("k"), rows))
    return cast(emit(EqualOp, columns, rows), node.dtype("dtype") or dtype(input))
