"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from mlir import ir

from .....dialects.core import Op
from .....dialects.stepwell.elementwise import AbsOp, AddOp, DivOp, ModOp, MulOp, PowOp, SqrtOp
from .....dialects.stepwell.movement import PadOp, ScatterOp
from .....dialects.stepwell.pooling import AveragePoolOp, MaxPoolIndicesOp, MaxPoolOp, SumPoolOp
from .....dialects.stepwell.reduction import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from .....dialects.stepwell.shape import FillOp
from .... import index_arithmetic as places
from ....build import chained, dtype, emit, integers, rank, reshaped, scalar, shape
from ....errors import NodeError
from ...nodes.node import Node
from ...nodes.registry import imports
from ..parts.windows import pads_of, window_of


@imports("MaxPool")
def max_pool(node: Node, input: ir.Value) -> tuple[ir.Value, ...]:
    """MaxPool, and (opset 8) the indices of the maxima in the flat input."""
    result = _pool(node, MaxPoolOp, input)
    order = node.attribute("storage_order", 0)
    if not any(node.outputs[1:]):
        return (result,)
    return result, _in_flat_input(node, input, _pool(node, MaxPoolIndicesOp, input), is_column_major=bool(order))


def _in_flat_input(node: Node, input: ir.Value, indices: ir.Value, is_column_major: bool) -> ir.Value:
    """Converts indices within a channel to indices in the whole tensor."""
    if is_column_major:
        extents = node.static(shape(input)[2:], "the extents of the input")
        rest, column_major, step = indices, None, math.prod(extents)
        for extent in reversed(extents):
            step //= max(extent, 1)
            count = scalar(extent, rest)
            coordinate = emit(ModOp, rest, count)
            rest, term = emit(DivOp, rest, count), emit(MulOp, coordinate, scalar(step, rest))
            column_major = term if column_major is None else emit(AddOp, column_major, term)
        indices = rest if column_major is None else column_major
    size = chained(MulOp, [places.extent(input, axis) for axis in range(2, rank(input))])
    channel = places.flat(input, [places.numbers(indices, axis) for axis in (0, 1)])
    return emit(AddOp, emit(MulOp, channel, size), indices)


@imports("LpPool")
def lp_pool(node: Node, input: ir.Value) -> ir.Value:
    """LpPool: the norm of each window."""
    return _norm(node, input, lambda powers: _pool(node, SumPoolOp, powers))


@imports("GlobalLpPool")
def global_lp_pool(node: Node, input: ir.Value) -> ir.Value:
    """GlobalLpPool: the norm of each channel."""
    axes = tuple(range(2, rank(input)))
    return _norm(node, input, lambda powers: emit(ReduceSumOp, powers, axes=axes, keepdims=True))


def _norm(node: Node, input: ir.Value, total: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """The p-th root of a sum of p-th powers."""
    p = node.attribute("p", 2)
    if p == 2:
        return emit(SqrtOp, total(emit(MulOp, input, input)))
    if p == 1:
        return total(emit(AbsOp, input))
    powers = emit(PowOp, emit(AbsOp, input), scalar(p, input))
    return emit(PowOp, total(powers), scalar(1 / p, input))


@imports("MaxUnpool", since=9)
def max_unpool(node: Node, input: ir.Value, indices: ir.Value, sizes: ir.Value | None = None) -> ir.Value:
    """MaxUnpool: places elements at their indices among zeros, at the start of a larger result if `sizes` is given."""
    kernel = node.attribute("kernel_shape")
    window = window_of(node, input, kernel)
    pads = node.attribute("pads", (0,) * (2 * len(kernel)))
    batch, channels, *spatial = node.static(shape(input), "the extents of the input")
    made = [
        (size - 1) * stride + extent - low - high
        for size, stride, extent, low, high in zip(
            spatial, window.strides, kernel, pads[: len(kernel)], pads[len(kernel) :], strict=True
        )
    ]
    wanted = [batch, channels, *made]
    zeros = emit(FillOp, integers([math.prod(wanted)]), value=np.zeros(1, dtype(input)))
    flat = integers([batch * channels * math.prod(spatial)])
    put = emit(ScatterOp, zeros, reshaped(indices, flat), reshaped(input, flat), axis=0)
    result = reshaped(put, integers(wanted))
    if sizes is None:
        return result
    more = [goal - size for goal, size in zip(node.integers(sizes, "output_shape"), wanted, strict=True)]
    if min(more) < 0:
        raise NodeError(f"makes the shape {wanted}, which is larger than 'output_shape'")
    return emit(PadOp, result, low=(0,) * len(wanted), high=tuple(more)) if any(more) else result


@imports("AveragePool")
def average_pool(node: Node, input: ir.Value) -> ir.Value:
    """AveragePool."""
    return _pool(node, AveragePoolOp, input, count_include_pad=bool(node.attribute("count_include_pad")))


def _pool(node: Node, op: type[Op], input: ir.Value, **attributes: Any) -> ir.Value:
    window = window_of(node, input, node.attribute("kernel_shape"))
    return emit(
        op,
        input,
        kernel=window.kernel,
        strides=window.strides,
        pads=pads_of(node, input, window),
        dilations=window.dilations,
        ceil_mode=bool(node.attribute("ceil_mode", 0)),
        **attributes,
    )


@imports("GlobalAveragePool")
def global_average_pool(node: Node, input: ir.Value) -> ir.Value:
    """GlobalAveragePool: the mean of each channel."""
    return emit(ReduceMeanOp, input, axes=tuple(range(2, rank(input))), keepdims=True)


@imports("GlobalMaxPool")
def global_max_pool(node: Node, input: ir.Value) -> ir.Value:
    """GlobalMaxPool: the maximum of each channel."""
    return emit(ReduceMaxOp, input, axes=tuple(range(2, rank(input))), keepdims=True)
