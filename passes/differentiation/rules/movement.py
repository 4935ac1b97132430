"""Derivatives of ops that move elements."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from mlir import ir

from ....dialects.stepwell import movement as ops
from ....dialects.stepwell.resampling import Sampling, resample
from ...ir.values import shape_of
from ..build import (
    dilated,
    from_front,
    inverse,
    literal,
    matmul,
    pad,
    part,
    reshape,
    sum_to,
    to_front,
    total,
    transpose,
)
from ..derivative import DERIVATIVE, Gradients


@DERIVATIVE.attach(ops.ReshapeOp, ops.SqueezeOp, ops.ExpandDimsOp)
def reshaped(op: ops.ReshapeOp, gradient: ir.Value) -> Gradients:
    """reshape(g)"""
    return (lambda: reshape(gradient, shape_of(op.input)),)


@DERIVATIVE.attach(ops.TransposeOp)
def transposed(op: ops.TransposeOp, gradient: ir.Value) -> Gradients:
    """transpose(g) by the inverse permutation"""
    return (lambda: transpose(gradient, inverse(op.permutation)),)


@DERIVATIVE.attach(ops.ReverseOp)
def reversed_elements(op: ops.ReverseOp, gradient: ir.Value) -> Gradients:
    """reverse(g)"""
    return (lambda: ops.ReverseOp(gradient, axes=op.axes).result,)


@DERIVATIVE.attach(ops.BroadcastToOp)
def broadcast(op: ops.BroadcastToOp, gradient: ir.Value) -> Gradients:
    """The sum of g over the copies"""
    return (lambda: sum_to(gradient, shape_of(op.input)),)


@DERIVATIVE.attach(ops.TileOp)
def tile(op: ops.TileOp, gradient: ir.Value) -> Gradients:
    """The sum of g over the copies"""

    def build() -> ir.Value:
        shape = shape_of(op.input)
        split = [size for pair in zip(op.repeats, shape, strict=True) for size in pair]
        return total(reshape(gradient, split), range(0, len(split), 2), keepdims=False)

    return (build,)


@DERIVATIVE.attach(ops.ConcatOp)
def concat(op: ops.ConcatOp, gradient: ir.Value) -> Gradients:
    """slice(g), slice(g)"""
    shape = shape_of(op.result)
    axis = op.axis % len(shape)
    middle = shape_of(op.lhs)[axis]
    starts = [middle if dim == axis else 0 for dim in range(len(shape))]
    stops = [middle if dim == axis else size for dim, size in enumerate(shape)]
    return (lambda: part(gradient, [0] * len(shape), stops), lambda: part(gradient, starts, shape))


@DERIVATIVE.attach(ops.SliceOp)
def box(op: ops.SliceOp, gradient: ir.Value) -> Gradients:
    """g with zeros between and around its elements"""

    def build() -> ir.Value:
        spread = dilated(gradient, op.steps)
        pairs = zip(shape_of(op.input), op.starts, shape_of(spread), strict=True)
        return pad(spread, op.starts, [size - start - inside for size, start, inside in pairs])

    return (build,)


@DERIVATIVE.attach(ops.PadOp)
def padded(op: ops.PadOp, gradient: ir.Value) -> Gradients:
    """slice(g); elements that were repeated get the gradients of their copies too"""

    def build() -> ir.Value:
        found = gradient
        if op.mode != "constant":
            for axis, size in enumerate(shape_of(op.input)):
                if op.low[axis] or op.high[axis]:
                    indices = np.pad(np.arange(size), (op.low[axis], op.high[axis]), mode=cast(Any, op.mode))
                    found = along(found, axis, np.eye(size)[indices])
            return found
        stops = [start + size for start, size in zip(op.low, shape_of(op.input), strict=True)]
        return part(found, op.low, stops)

    return (build,)


@DERIVATIVE.attach(ops.ResizeOp)
def resize(op: ops.ResizeOp, gradient: ir.Value) -> Gradients:
    """Along each dimension, g times the weights of the interpolation"""

    def build() -> ir.Value:
        found = gradient
        sampling = Sampling(op.mode, op.coordinates, op.nearest, op.cubic_coefficient, op.exclude_outside)
        for axis, (extent, size, scale) in enumerate(zip(shape_of(op.input), op.sizes, op.scales, strict=True)):
            if extent != size or scale != 1:
                found = along(found, axis, resample(np.eye(extent), 0, size, float(scale), sampling))
        return found

    return (build,)


def along(value: ir.Value, axis: int, weights: np.ndarray) -> ir.Value:
    """Weighted sums of a value along a dimension, by weights [extent, extent of the result].

    Sums over runs of neighbours, as for nearest neighbours at an integer factor, need no product.
    """
    shape = shape_of(value)
    size, extent = weights.shape
    if size % extent == 0 and np.array_equal(weights, np.repeat(np.eye(extent), size // extent, 0)):
        runs = reshape(value, (*shape[:axis], extent, size // extent, *shape[axis + 1 :]))
        return total(runs, [axis + 1], keepdims=False)
    moved = to_front(value, axis)
    rest = shape_of(moved)[1:]
    rows = matmul(literal(weights.T, value), reshape(moved, (size, int(np.prod(rest, dtype=int)))))
    return from_front(reshape(rows, (extent, *rest)), axis)
