"""Derivatives of ops that move elements."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import movement as ops
from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.resampling import Sampling, transposed_taps
from ...graph.values import constant, dtype_of
from ...ir.rewriting import defining_op
from ...ir.values import shape_of
from ..build import (
    add,
    bounded,
    cast,
    dilated,
    from_front,
    inverse,
    literal,
    matmul,
    mul,
    pad,
    part,
    reshape,
    scattered,
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
        shape = shape_of(op.input)
        if op.mode == "constant":
            return part(gradient, op.low, [start + size for start, size in zip(op.low, shape, strict=True)])
        found = gradient
        for axis, size in enumerate(shape):
            if op.low[axis] or op.high[axis]:
                found = _folded(found, axis, op.low[axis], size, op.mode)
        return found

    return (build,)


def _folded(value: ir.Value, axis: int, low: int, size: int, mode: str) -> ir.Value:
    """A dimension of `size` elements behind `low` copies, to which these and the copies after it are added."""
    rank, high = len(shape_of(value)), shape_of(value)[axis] - low - size
    if mode == "wrap" and max(low, high) > size:  # copies of more than one round
        indices = np.pad(np.arange(size), (low, high), mode="wrap")
        return along(value, axis, np.eye(size)[indices])
    found = _along(value, axis, low, low + size)
    for start, count in ((0, low), (low + size, high)):
        if not count:
            continue
        copies = _along(value, axis, start, start + count)
        match mode:
            case "edge":
                copies, before = total(copies, [axis]), size - 1 if start else 0
            case "reflect":
                copies, before = ops.ReverseOp(copies, axes=(axis,)).result, size - 1 - count if start else 1
            case _:
                before = 0 if start else size - count
        behind = size - before - shape_of(copies)[axis]
        amounts = ([amount if dim == axis else 0 for dim in range(rank)] for amount in (before, behind))
        found = add(found, pad(copies, *amounts))
    return found


def _along(value: ir.Value, axis: int, start: int, stop: int) -> ir.Value:
    """The elements of a dimension from `start` to `stop`."""
    shape = shape_of(value)
    starts = [start if dim == axis else 0 for dim in range(len(shape))]
    return part(value, starts, [stop if dim == axis else size for dim, size in enumerate(shape)])


@DERIVATIVE.attach(ops.ResizeOp)
def resize(op: ops.ResizeOp, gradient: ir.Value) -> Gradients:
    """Along each dimension, the sums of g times the weights that an element has in the results"""

    def build() -> ir.Value:
        found = gradient
        sampling = Sampling(op.mode, op.coordinates, op.nearest, op.cubic_coefficient, op.exclude_outside)
        for axis, (extent, size, scale) in enumerate(zip(shape_of(op.input), op.sizes, op.scales, strict=True)):
            if extent != size or scale != 1:
                found = resampled(found, axis, *sampling.taps(extent, size, float(scale)), extent)
        return found

    return (build,)


MOST_TAPS = 16
"""Most taps of a resampling that is computed tap by tap; with more, a product with a matrix of weights is faster."""


def resampled(value: ir.Value, axis: int, indices: np.ndarray, weights: np.ndarray, extent: int) -> ir.Value:
    """The transposed resampling of a value along a dimension.

    Args:
        value: the gradient of the results.
        axis: the dimension.
        indices: [taps, size], the elements that make up each result.
        weights: [taps, size], their weights.
        extent: number of elements of the dimension that was resampled.
    """
    size = indices.shape[1]
    taken, shares = transposed_taps(indices, weights, extent)
    is_run = size % extent == 0 and np.array_equal(indices, np.repeat(np.arange(extent), size // extent)[None])
    if len(taken) > MOST_TAPS or (is_run and (weights == 1).all()):
        dense = np.zeros((size, extent))
        np.add.at(dense, (np.broadcast_to(np.arange(size), indices.shape), indices), weights)
        return along(value, axis, dense)
    kind = np.float64 if dtype_of(value) == np.float64 else np.float32
    return ops.ResampleOp(value, constant(taken), constant(shares.astype(kind)), axis=axis).result


@DERIVATIVE.attach(ops.ResampleOp)
def resample(op: ops.ResampleOp, gradient: ir.Value) -> Gradients:
    """The sums of g times the weights that an element has, None, the sums of g times the elements"""
    shape = shape_of(op.input)
    axis = op.axis % len(shape)
    known = defining_op(op.indices, ConstantOp), defining_op(op.weights, ConstantOp)
    terms, size = shape_of(op.indices)
    rest = [extent for dim, extent in enumerate(shape) if dim != axis]
    ones = [1] * len(rest)

    def of_input() -> ir.Value:
        if known[0] is not None and known[1] is not None:
            indices = np.clip(known[0].value, 0, shape[axis] - 1)
            return resampled(gradient, axis, indices, known[1].value, shape[axis])
        weights = reshape(cast(op.weights, dtype_of(gradient)), (terms, size, *ones))
        rows = reshape(mul(weights, to_front(gradient, axis)), (terms * size, *rest))
        return from_front(scattered(rows, places(), shape[axis]), axis)

    def places() -> ir.Value:
        return bounded(reshape(op.indices, (terms * size,)), shape[axis])

    def of_weights() -> ir.Value:
        rows = ops.GatherOp(to_front(op.input, axis), reshape(places(), (terms, size)), axis=0).result
        products = mul(rows, to_front(gradient, axis))
        return cast(total(products, range(2, 2 + len(rest)), keepdims=False), dtype_of(op.weights))

    return of_input, None, of_weights


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
