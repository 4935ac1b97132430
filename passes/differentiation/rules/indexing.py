"""Derivatives of ops that read and write elements at indices of operands."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import movement as ops
from ....dialects.stepwell.elementwise import EqualOp, GreaterEqualOp, LessOp
from ...graph.values import constant, dtype_of
from ...ir.values import shape_of
from ..build import (
    add,
    both,
    cast,
    compare,
    count,
    div,
    from_front,
    full,
    mul,
    reshape,
    scattered,
    select,
    transpose,
    zeros,
)
from ..derivative import DERIVATIVE, Gradients, NotDifferentiableError


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
    """g, g at the indices; with replaced elements, each part of g goes to where its element comes from

    Products: g times all other factors. Extremes: equal shares for the operands that are the result, as in PyTorch.
    """
    if op.count is not None:
        raise NotDifferentiableError("a number of updates that depends on data is not supported")
    targets = _Targets(op)

    def kept(value: ir.Value, updates: ir.Value, reduction: str) -> ir.Value:
        return ops.ScatterOp(value, op.indices, updates, axis=op.axis, reduction=reduction).result

    if op.reduction == "none":
        return (
            lambda: kept(gradient, zeros(op.updates), "none"),
            None,
            lambda: targets.read(gradient, targets.last()),
            None,
        )
    if op.reduction == "add":
        return lambda: gradient, None, lambda: targets.read(gradient), None
    if op.reduction == "mul":
        is_zero = compare(EqualOp, op.updates, 0)
        others = select(is_zero, 1, op.updates)

        def of_factors() -> ir.Value:
            count_ = kept(zeros(op.input), cast(is_zero, dtype_of(op.input)), "add")
            product = mul(gradient, kept(op.input, others, "mul"))
            without = targets.read(select(compare(EqualOp, count_, 0), product, 0))
            alone = targets.read(select(compare(EqualOp, count_, 1), product, 0))
            return select(is_zero, alone, div(without, others))

        return lambda: mul(gradient, kept(full(1, op.input), op.updates, "mul")), None, of_factors, None
    is_input = cast(compare(EqualOp, op.input, op.result), dtype_of(op.input))
    is_update = cast(compare(EqualOp, op.updates, targets.read(op.result)), dtype_of(op.input))
    shares = div(gradient, kept(is_input, is_update, "add"))
    return lambda: mul(is_input, shares), None, lambda: mul(is_update, targets.read(shares)), None


class _Targets:
    """The rows that updates are combined with: one list for all batches, and one more row for indices out of range."""

    def __init__(self, op: ops.ScatterOp) -> None:
        self._op, shape = op, shape_of(op.input)
        axis = op.axis % len(shape)
        self._batches, self._extent, self._rest = count(shape[:axis]), shape[axis], shape[axis + 1 :]
        self._number = shape_of(op.indices)[-1]

    @property
    def _rows(self) -> int:
        return self._batches * self._extent

    def _places(self) -> ir.Value:
        indices = reshape(self._op.indices, (self._batches, self._number))
        indices = select(compare(LessOp, indices, 0), add(indices, self._extent), indices)
        is_inside = both(compare(LessOp, indices, self._extent), compare(GreaterEqualOp, indices, 0))
        kind = dtype_of(indices)
        first = constant((np.arange(self._batches) * self._extent).reshape(self._batches, 1).astype(kind))
        outside = constant(np.array(self._rows, kind))
        return reshape(select(is_inside, add(indices, first), outside), (self._batches * self._number,))

    def read(self, value: ir.Value, keeps: ir.Value | None = None) -> ir.Value:
        """The rows of a value of the input's shape for all updates; 0 for those out of range, or that are not kept."""
        places = self._places()
        is_inside = compare(LessOp, places, self._rows)
        keeps = is_inside if keeps is None else both(is_inside, keeps)
        taken = ops.GatherOp(reshape(value, (self._rows, *self._rest)), places, axis=0).result
        mask = reshape(keeps, (self._batches * self._number, *[1] * len(self._rest)))
        return reshape(select(mask, taken, 0), shape_of(self._op.updates))

    def last(self) -> ir.Value:
        """Returns whether an update is the last one of its row, as bools."""
        places = self._places()
        order = constant(np.arange(self._batches * self._number, dtype=np.int64))
        unwritten = constant(np.full(self._rows + 1, -1, np.int64))
        last = ops.ScatterOp(unwritten, places, order, axis=0).result
        return compare(EqualOp, ops.GatherOp(last, places, axis=0).result, order)
