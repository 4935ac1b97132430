"""Derivatives of ops that read and write elements at indices of operands."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import movement as ops
from ....dialects.stepwell.elementwise import EqualOp, GreaterEqualOp, LessOp
from ...graph.values import constant, dtype_of
from ...ir.values import shape_of
from ..build import add, both, compare, count, from_front, full, reshape, select, transpose, zeros
from ..derivative import DERIVATIVE, Gradients, NotDifferentiableError


def scattered(updates: ir.Value, indices: ir.Value, extent: int) -> ir.Value:
    """Zeros [extent, ..], to which rows [n, ..] are added at indices [n]."""
    rows = full(0, updates, (extent, *shape_of(updates)[1:]))
    return ops.ScatterOp(rows, indices, updates, axis=0, reduction="add").result


@DERIVATIVE.attach(ops.GatherOp)
def gather(op: ops.GatherOp, gradient: ir.Value) -> Gradients:
    """The rows of g added to zeros at the indices"""

    def build() -> ir.Value:
        shape, targets = shape_of(op.input), shape_of(op.indices)
        axis, rank = op.axis % len(shape), len(targets)
        order = [*range(axis, axis + rank), *range(axis), *range(axis + rank, len(shape) + rank - 1)]
        moved = transpose(gradient, order)
        rest = [size for dim, size in enumerate(shape) if dim != axis]
        rows = reshape(moved, (count(targets), *rest))
        return from_front(scattered(rows, reshape(op.indices, (count(targets),)), shape[axis]), axis)

    return build, None


@DERIVATIVE.attach(ops.ScatterOp)
def scatter(op: ops.ScatterOp, gradient: ir.Value) -> Gradients:
    """g, g at the indices; with replaced elements, each part of g goes to where its element comes from"""
    if op.reduction not in ("none", "add"):
        raise NotDifferentiableError(f"the reduction '{op.reduction}' is not supported, 'none' and 'add' are")
    if op.count is not None:
        raise NotDifferentiableError("a number of updates that depends on data is not supported")
    shape = shape_of(op.input)
    axis = op.axis % len(shape)
    batches, extent, rest = count(shape[:axis]), shape[axis], shape[axis + 1 :]
    number = shape_of(op.indices)[-1]
    # One list of rows for all batches, and one additional row that receives the updates with indices out of range.
    indices = reshape(op.indices, (batches, number))
    indices = select(compare(LessOp, indices, 0), add(indices, extent), indices)
    is_inside = both(compare(LessOp, indices, extent), compare(GreaterEqualOp, indices, 0))
    first = (np.arange(batches) * extent).reshape(batches, 1).astype(dtype_of(indices))
    outside = constant(np.array(batches * extent, dtype_of(indices)))
    targets = reshape(select(is_inside, add(indices, constant(first)), outside), (batches * number,))

    def of_input() -> ir.Value:
        if op.reduction == "add":
            return gradient
        return ops.ScatterOp(gradient, op.indices, zeros(op.updates), axis=op.axis).result

    def of_updates() -> ir.Value:
        rows = reshape(gradient, (batches * extent, *rest))
        keeps = compare(LessOp, targets, batches * extent)
        if op.reduction == "none":
            order = constant(np.arange(batches * number, dtype=np.int64))
            unwritten = constant(np.full(batches * extent + 1, -1, np.int64))
            last = ops.ScatterOp(unwritten, targets, order, axis=0).result
            keeps = both(keeps, compare(EqualOp, ops.GatherOp(last, targets, axis=0).result, order))
        taken = ops.GatherOp(rows, targets, axis=0).result
        keeps = reshape(keeps, (batches * number, *[1] * len(rest)))
        return reshape(select(keeps, taken, 0), shape_of(op.updates))

    return of_input, None, of_updates, None
