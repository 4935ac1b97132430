"""Derivatives of reductions and running totals."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import reduction as ops
from ....dialects.stepwell.cumulative import CumulativeOp
from ....dialects.stepwell.elementwise import EqualOp
from ...graph.values import dtype_of
from ...ir.values import shape_of
from ..build import both, broadcast, cast, compare, count, div, inverse, mul, reshape, select, total, transpose
from ..derivative import DERIVATIVE, Gradients


def _axes(op: ops.ReductionOp) -> tuple[int, ...]:
    rank = len(shape_of(op.input))
    return tuple(sorted(axis % rank for axis in op.axes))


def _kept(op: ops.ReductionOp, value: ir.Value) -> ir.Value:
    """A value of the result's shape with the reduced dimensions as ones."""
    axes = _axes(op)
    return reshape(value, [1 if axis in axes else size for axis, size in enumerate(shape_of(op.input))])


@DERIVATIVE.attach(ops.ReduceSumOp)
def reduce_sum(op: ops.ReduceSumOp, gradient: ir.Value) -> Gradients:
    """broadcast(g)"""
    return (lambda: broadcast(_kept(op, gradient), shape_of(op.input)),)


@DERIVATIVE.attach(ops.ReduceMeanOp)
def reduce_mean(op: ops.ReduceMeanOp, gradient: ir.Value) -> Gradients:
    """broadcast(g / n) for n elements"""
    shape = shape_of(op.input)
    terms = count([shape[axis] for axis in _axes(op)])
    return (lambda: broadcast(mul(_kept(op, gradient), 1 / max(terms, 1)), shape),)


@DERIVATIVE.attach(ops.ReduceMaxOp, ops.ReduceMinOp)
def extreme(op: ops.ReductionOp, gradient: ir.Value) -> Gradients:
    """g to the elements that equal the result, in equal shares, as in PyTorch"""

    def build() -> ir.Value:
        found = cast(compare(EqualOp, op.input, _kept(op, op.result)), dtype_of(op.input))
        return mul(found, div(_kept(op, gradient), total(found, _axes(op))))

    return (build,)


@DERIVATIVE.attach(ops.ReduceProdOp)
def reduce_prod(op: ops.ReduceProdOp, gradient: ir.Value) -> Gradients:
    """g times the product of all other elements, from exclusive products in both directions: also right for zeros"""

    def build() -> ir.Value:
        shape, axes = shape_of(op.input), _axes(op)
        order = [axis for axis in range(len(shape)) if axis not in axes] + list(axes)
        moved = [shape[axis] for axis in order]
        kept = moved[: len(shape) - len(axes)]
        rows = reshape(transpose(op.input, order), [*kept, count(moved[len(kept) :])])
        others = mul(
            CumulativeOp(rows, axis=len(kept), mode="product", exclusive=True).result,
            CumulativeOp(rows, axis=len(kept), mode="product", exclusive=True, reverse=True).result,
        )
        return mul(transpose(reshape(others, moved), inverse(order)), _kept(op, gradient))

    return (build,)


@DERIVATIVE.attach(CumulativeOp)
def cumulative(op: CumulativeOp, gradient: ir.Value) -> Gradients:
    """The running total of g from the other end; for products, of g * y, divided by x if that is not 0"""

    def back(value: ir.Value) -> ir.Value:
        return CumulativeOp(value, axis=op.axis, reverse=not op.reverse, exclusive=op.exclusive).result

    def product() -> ir.Value:
        # Products are 0 from the first zero of a row on. Its gradient is that of the row with a 1 in its place.
        is_zero = compare(EqualOp, op.input, 0)
        number = CumulativeOp(cast(is_zero, np.dtype(np.int64)), axis=op.axis, reverse=op.reverse).result
        is_first = both(is_zero, compare(EqualOp, number, 1))
        replaced = CumulativeOp(select(is_first, 1, op.input), **op.attribute_values()).result
        others = div(back(mul(gradient, op.result)), select(is_zero, 1, op.input))
        return select(is_first, back(mul(gradient, replaced)), select(compare(EqualOp, number, 0), others, 0))

    return (lambda: back(gradient),) if op.mode == "sum" else (product,)
