"""Scatter: a copy, then the updates in order; batches and parts of slices are independent and thus parallel.

%copied = linalg.generic {copy} ins(%input) outs(%out)
%result = scf.forall (%batch, %, %part) shared_outs(%block = %copied) {
  scf.for %update = %c0 to %count iter_args(%block) { %index = tensor.extract %indices[%batch, %update] ... }
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor

from ....dialects.stepwell import movement as ops
from ....dialects.types import is_float, spec_of_type
from ....passes.ir.values import shape_of
from ...builders import scalars
from ...builders.indices import value_of
from ...builders.scalars import narrow, pack, unpack, widen
from ...builders.tensors import copy, dims, structured, with_shape
from ..rules import LINALG
from ..sequences import clamped, from_front, in_parallel, part, put, repeat, where

# Minimum number of elements in a part of a slice, as each part reads all indices.
_PART = 512


def around(axis: int, shape: Sequence[int]) -> tuple[int, int, int]:
    """Returns the number of elements before an axis, along it, and after it."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


@LINALG.attach(ops.ScatterOp)
def scatter(op: ops.ScatterOp, inputs: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
    """Emits updates of [batch, slice, element]."""
    input, indices, updates, applied = inputs
    shape = shape_of(input)
    if 0 in (*shape, *shape_of(updates)):
        return [copy(input, outs[0])]
    batches, extent, size = around(op.axis, shape)
    count = shape_of(indices)[-1]
    dtype = spec_of_type(op.operation.operands[0].type).dtype
    # Single elements are contiguous along the last dimension, so that they are copied in vectors.
    slices = [] if size == 1 else [size]
    places, changes = with_shape(indices, [batches, count]), with_shape(updates, [batches, count, *slices])
    copied = with_shape(copy(input, outs[0]), [batches, extent, *slices])
    width = _part_of(size)
    stop = clamped(applied, count) if applied is not None else count
    result = in_parallel(
        [1, extent, width] if slices else [1, extent],
        copied,
        lambda at, block: repeat(
            0,
            stop,
            [block],
            lambda update, carried: [_apply(op.reduction, dtype, places, changes, at, update, carried[0])],
        )[0],
    )
    return [with_shape(result, shape)]


def _part_of(size: int) -> int:
    """Returns the number of elements of a slice that are processed together: a divisor of `size`."""
    return next(size // count for count in range(max(1, min(size // _PART, 16)), 0, -1) if size % count == 0)


def _apply(
    reduction: str,
    dtype: np.dtype,
    indices: ir.Value,
    updates: ir.Value,
    at: Sequence[ir.Value],
    update: ir.Value,
    block: ir.Value,
) -> ir.Value:
    """Returns `block` [1, slice, element] or [1, slice] after one update; `at` is its batch, slice and any element."""
    batch, _, *element = at
    _, extent, *width = shape_of(block)
    index, is_inside = from_front(tensor.extract(indices, [batch, update]), extent)

    def changed() -> ir.Value:
        if not width:
            place = [value_of(0), index]
            new, old = tensor.extract(updates, [batch, update]), tensor.extract(block, place)
            return tensor.insert(combined(reduction, dtype, new, old), block, place)
        box = [0, index, 0], [1, 1, *width]
        change = part(updates, [batch, update, *element], [1, 1, *width], rank=1)
        row = part(block, *box, rank=1)
        merged = structured(
            [change], [row], [dims(1), dims(1)], "p", lambda new, old: combined(reduction, dtype, new, old)
        )
        return put(merged[0], block, *box)

    return where(is_inside, block, changed)


def combined(reduction: str, dtype: np.dtype, new: ir.Value, old: ir.Value) -> ir.Value:
    """Returns an element after an update."""
    if reduction == "none":
        return new
    lhs, rhs = (widen(unpack(value, dtype)) for value in (old, new))
    match reduction:
        case "add":
            total = arith.addf(lhs, rhs) if is_float(dtype) else _added(dtype, lhs, rhs)
        case "mul":
            total = arith.mulf(lhs, rhs) if is_float(dtype) else _multiplied(dtype, lhs, rhs)
        case "max":
            total = scalars.maximum(lhs, rhs, dtype)
        case _:
            total = scalars.minimum(lhs, rhs, dtype)
    return pack(narrow(total, new.type) if is_float(dtype) else total, dtype)


def _added(dtype: np.dtype, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return arith.ori(lhs, rhs) if dtype == np.bool_ else arith.addi(lhs, rhs)


def _multiplied(dtype: np.dtype, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return arith.andi(lhs, rhs) if dtype == np.bool_ else arith.muli(lhs, rhs)
