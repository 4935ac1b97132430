"""Resizing: weighted sums of elements whose positions are in tables made at compile time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor

from ....dialects.stepwell import movement as ops
from ....dialects.stepwell.resampling import Sampling
from ....passes.ir.values import element_type_of, shape_of
from ...builders import scalars
from ...builders.indices import value_of
from ...builders.scalars import narrow, widen
from ...builders.tensors import constant_tensor, dims, elementwise_generic, filled, loop_index, structured
from ..rules import LINALG


@LINALG.attach(ops.ResizeOp)
def resize(op: ops.ResizeOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a weighted sum of elements whose positions along each dimension are in tables."""
    (value,) = inputs
    element, shape, sizes = element_type_of(value), shape_of(value), shape_of(outs[0])
    wide = scalars.compute_type(element)
    i64 = ir.IntegerType.get_signless(64)
    rank = len(shape)
    sampling = Sampling(op.mode, op.coordinates, op.nearest, op.cubic_coefficient, op.exclude_outside)
    places: dict[int, list[ir.Value]] = {}
    weights: dict[int, list[ir.Value]] = {}
    for axis, scale in enumerate(np.asarray(op.scales)):
        if sizes[axis] == shape[axis] and scale == 1:
            continue
        indices, factors = sampling.taps(shape[axis], sizes[axis], float(scale))
        places[axis] = [constant_tensor([int(item) for item in row], i64) for row in indices]
        weights[axis] = (
            [constant_tensor([float(item) for item in row], wide) for row in factors] if len(factors) > 1 else []
        )
    axes = sorted(places)

    def body(_: ir.Value) -> ir.Value:
        loops = [loop_index(position) for position in range(rank)]

        def at(taps: tuple[int, ...]) -> ir.Value:
            where = list(loops)
            for axis, tap in zip(axes, taps, strict=True):
                where[axis] = arith.index_cast(ir.IndexType.get(), tensor.extract(places[axis][tap], [loops[axis]]))
            return widen(tensor.extract(value, where)) if weights_used else tensor.extract(value, where)

        weights_used = any(weights[axis] for axis in axes)
        if not weights_used:
            return at((0,) * len(axes))
        return narrow(_weighed(axes, (), weights, loops, at), element)

    return structured([], [outs[0]], [dims(rank)], "p" * rank, body)


def _weighed(
    axes: list[int],
    taps: tuple[int, ...],
    weights: dict[int, list[ir.Value]],
    loops: list[ir.Value],
    at: Callable[[tuple[int, ...]], ir.Value],
) -> ir.Value:
    """Returns the sum over the taps of the axes from `len(taps)` on."""
    if len(taps) == len(axes):
        return at(taps)
    axis = axes[len(taps)]
    total: ir.Value | None = None
    for tap, table in enumerate(weights[axis]):
        factor = tensor.extract(table, [loops[axis]])
        term = arith.mulf(factor, _weighed(axes, (*taps, tap), weights, loops, at))
        total = term if total is None else arith.addf(total, term)
    assert total is not None
    return total


@LINALG.attach(ops.ResampleOp)
def resample(op: ops.ResampleOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits a reduction over the terms, which looks up its elements."""
    value, indices, weights = inputs
    shape, element = shape_of(outs[0]), element_type_of(value)
    wide = scalars.compute_type(element)
    rank, axis = len(shape), op.axis % len(shape)
    extent = shape_of(value)[axis]
    loops = dims(rank + 1)

    def body(index: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
        where = [loop_index(dim) for dim in range(rank)]
        where[axis] = arith.minsi(
            arith.maxsi(arith.index_cast(ir.IndexType.get(), index), value_of(0)), value_of(extent - 1)
        )
        return arith.addf(total, arith.mulf(weight, widen(tensor.extract(value, where))))

    table = [loops[rank], loops[axis]]
    start = filled(scalars.number(0, wide), shape)
    total = structured([indices, weights], [start], [table, table, loops[:rank]], "p" * rank + "r", body)[0]
    if wide == element:
        return [total]
    return [elementwise_generic([total], outs[0], lambda item: narrow(item, element))]
