"""Derivatives of pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell import pooling as ops
from ....dialects.stepwell.elementwise import EqualOp
from ....dialects.stepwell.movement import ScatterOp
from ....dialects.stepwell.windows import CHANNELS_FIRST, Window
from ...graph.values import constant
from ...ir.values import Shape, shape_of
from ..build import (
    broadcast,
    compare,
    count,
    dilated,
    div,
    full,
    inverse,
    literal,
    pad,
    part,
    reshape,
    select,
    transpose,
)
from ..derivative import DERIVATIVE, Gradients


@DERIVATIVE.attach(ops.SumPoolOp)
def sum_pool(op: ops.SumPoolOp, gradient: ir.Value) -> Gradients:
    """The sum of g over the windows that contain an element"""
    return (lambda: _spread(op, gradient),)


@DERIVATIVE.attach(ops.AveragePoolOp)
def average_pool(op: ops.AveragePoolOp, gradient: ir.Value) -> Gradients:
    """The sum of g / n over the windows that contain an element, each of which averages n elements"""

    def build() -> ir.Value:
        shape = _first(shape_of(op.input), op.layout)
        ones = np.ones((1, 1, *shape[2:]))
        attributes = {name: value for name, value in op.attribute_values().items() if name != "count_include_pad"}
        means = ops.AveragePoolOp.reference(ones, **op.attribute_values() | {"layout": CHANNELS_FIRST})
        sums = ops.SumPoolOp.reference(ones, **attributes | {"layout": CHANNELS_FIRST})
        counts = np.rint(sums / means)
        if op.layout != CHANNELS_FIRST:
            counts = np.moveaxis(counts, 1, -1)
        return _spread(op, div(gradient, literal(counts, gradient)))

    return (build,)


@DERIVATIVE.attach(ops.MaxPoolOp)
def max_pool(op: ops.MaxPoolOp, gradient: ir.Value) -> Gradients:
    """g at the greatest element of each window, at the first one if several are equal"""

    def build() -> ir.Value:
        return max_pool_gradient(op, gradient, ops.MaxPoolIndicesOp(op.input, **op.attribute_values()).result)

    return (build,)


def max_pool_gradient(op: ops.MaxPoolOp, gradient: ir.Value, maxima: ir.Value) -> ir.Value:
    """The gradient of the input of max pooling, from that of its result and the indices of the greatest elements."""
    spread = _runs(op)
    if spread is None:
        return _scattered(op, gradient, maxima)
    shape = shape_of(op.input)
    spatial = _first(shape, op.layout)[2:]
    numbers = np.arange(count(spatial)).reshape(1, 1, *spatial)
    if op.layout != CHANNELS_FIRST:
        numbers = np.moveaxis(numbers, 1, -1)
    split, kept = spread
    index = reshape(constant(numbers.astype(np.int64)), _ones(split, len(shape), op.layout))
    is_greatest = compare(EqualOp, reshape(maxima, kept), index)
    return reshape(select(is_greatest, reshape(gradient, kept), 0), shape)


def _first(shape: Shape, layout: str) -> Shape:
    """A shape with the channels before the spatial dimensions."""
    return shape if layout == CHANNELS_FIRST else (shape[0], shape[-1], *shape[1:-1])


def _runs(op: ops.PoolOp) -> tuple[Shape, Shape] | None:
    """If windows tile the input: the shape of the input with each spatial dimension split into positions and taps,
    and that of the result with a dimension of size 1 for the taps. Otherwise None.
    """
    shape, found = shape_of(op.input), shape_of(op.result)
    first = 2 if op.layout == CHANNELS_FIRST else 1
    spatial = range(first, first + len(op.kernel))
    tiles = all(shape[axis] == found[axis] * op.kernel[axis - first] for axis in spatial)
    if not tiles or any(op.pads) or op.strides != op.kernel or set(op.dilations) != {1}:
        return None
    split = [
        size
        for axis in range(len(shape))
        for size in ((found[axis], op.kernel[axis - first]) if axis in spatial else (shape[axis],))
    ]
    kept = [size for axis in range(len(shape)) for size in ((found[axis], 1) if axis in spatial else (shape[axis],))]
    return tuple(split), tuple(kept)


def _ones(split: Shape, rank: int, layout: str) -> Shape:
    """The split shape with 1 for the batch and the channels."""
    channel = 1 if layout == CHANNELS_FIRST else len(split) - 1
    return tuple(1 if dim in (0, channel) else size for dim, size in enumerate(split))


def _spread(op: ops.PoolOp, gradient: ir.Value) -> ir.Value:
    """The sum of the gradient over the windows that contain an element."""
    shape, runs = shape_of(op.input), _runs(op)
    if runs is not None:
        split, kept = runs
        return reshape(broadcast(reshape(gradient, kept), split), shape)
    rank = len(op.kernel)
    first = 2 if op.layout == CHANNELS_FIRST else 1
    window = Window(op.kernel, op.strides, op.pads, op.dilations)
    steps = [op.strides[axis - first] if first <= axis < first + rank else 1 for axis in range(len(shape))]
    spread = dilated(gradient, steps)
    # An element is contained in the windows that start up to one extent of the window before it.
    low = [window.extents[axis] - 1 for axis in range(rank)]
    needed = [shape[first + axis] + op.pads[axis] + low[axis] for axis in range(rank)]
    high = [max(needed[axis] - low[axis] - shape_of(spread)[first + axis], 0) for axis in range(rank)]
    wide = pad(spread, _around(low, first, len(shape)), _around(high, first, len(shape)))
    starts = _around(op.pads[:rank], first, len(shape))
    stops = [
        op.pads[axis - first] + shape[axis] + low[axis - first] if first <= axis < first + rank else shape[axis]
        for axis in range(len(shape))
    ]
    return ops.SumPoolOp(
        part(wide, starts, stops),
        kernel=op.kernel,
        strides=(1,) * rank,
        pads=(0,) * (2 * rank),
        dilations=op.dilations,
        layout=op.layout,
    ).result


def _around(numbers: Sequence[int], first: int, rank: int) -> list[int]:
    """The numbers of the spatial dimensions, extended to all dimensions by 0."""
    return [numbers[axis - first] if first <= axis < first + len(numbers) else 0 for axis in range(rank)]


def _scattered(op: ops.PoolOp, gradient: ir.Value, maxima: ir.Value) -> ir.Value:
    """Zeros of the input's shape, to which each element of g is added at its linear index within its channel."""
    rank = len(shape_of(gradient))
    order = list(range(rank)) if op.layout == CHANNELS_FIRST else [0, rank - 1, *range(1, rank - 1)]
    shape = _first(shape_of(op.input), op.layout)
    positions = count(_first(shape_of(gradient), op.layout)[2:])
    flat = (shape[0], shape[1], positions)
    nothing = full(0, gradient, (shape[0], shape[1], count(shape[2:])))
    indices = reshape(transpose(maxima, order), flat)
    updates = reshape(transpose(gradient, order), flat)
    found = ScatterOp(nothing, indices, updates, axis=2, reduction="add").result
    return transpose(reshape(found, shape), inverse(order))
