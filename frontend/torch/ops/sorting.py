"""Ordering."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.movement import SqueezeOp
from ....dialects.stepwell.sorting import TopKOp
from ...build import cast, constant, dtype, emit, known_dim, part_along, rank, transposed
from ...errors import NeedsShapes
from ...index_arithmetic import elements
from ..node import AtenNode, axis_of
from ..registry import imports
from ..symbols import AtenSize


@imports("aten.topk.default")
def top_k(node: AtenNode, input: ir.Value, k: AtenSize, dim: int, largest: bool) -> tuple[ir.Value, ...]:
    """The greatest or least elements along a dimension, and their indices."""
    if isinstance(k, ir.Value):
        raise NeedsShapes("the number of elements must be known")
    return ordered(input, k, dim, largest)


@imports("aten.sort.default", "aten.sort.stable")
def sort(node: AtenNode, input: ir.Value, dim: int, descending: bool) -> tuple[ir.Value, ...]:
    """All elements in order along a dimension, and their indices; equal elements keep their order."""
    count = known_dim(input, axis_of(input, dim), "the extent of the sorted dimension") if rank(input) else 1
    return ordered(input, count, dim, descending)


@imports("aten.kthvalue.default")
def kth_value(node: AtenNode, input: ir.Value, k: int, dim: int, keepdim: bool) -> tuple[ir.Value, ...]:
    """The k-th least element along a dimension, and its index."""
    parts = ordered(input, k, dim, False)
    if rank(input) == 0:
        return parts
    axis = axis_of(input, dim)
    last = [part_along(value, axis, k - 1, k) for value in parts]
    return tuple(value if keepdim else emit(SqueezeOp, value, axes=(axis,)) for value in last)


def ordered(input: ir.Value, count: int, dim: int, largest: bool) -> tuple[ir.Value, ...]:
    """Returns the first of the ordered elements along a dimension, and their indices."""
    if rank(input) == 0:
        return input, constant(np.array(0, np.int64))
    axis, last = axis_of(input, dim), rank(input) - 1
    order = [other for other in range(rank(input)) if other != axis] + [axis]
    back = [order.index(other) for other in range(rank(input))]
    rows = transposed(input, order)
    ranked = cast(rows, np.uint8) if dtype(rows).kind == "b" else rows
    indices = emit(TopKOp, ranked, k=count, largest=largest)
    return transposed(elements(rows, indices, last), back), transposed(indices, back)
