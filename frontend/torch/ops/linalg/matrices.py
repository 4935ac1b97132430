"""Batches of matrices, and the loops over their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from .....dialects.core import spec_of
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import DynamicBroadcastToOp, DynamicSliceOp, ExpandDimsOp
from .....dialects.stepwell.reduction import ReduceMaxOp, ReduceSumOp
from .....dialects.stepwell.shape import FillOp
from ....build import (
    constant,
    dims_of,
    dtype,
    emit,
    gathered,
    integers,
    joined,
    part_along,
    rank,
    reshaped,
    shape,
    shape_of,
    transposed,
)
from ....formulas import Formula
from ....index_arithmetic import elements, extent, merged, numbers
from ....loops import Carried, counted
from ...node import AtenNode
from ...symbols import AtenSize, extents

_Step = Callable[..., Sequence[Formula]]
"""The next carried values from the number of an iteration and the last ones."""


def batched(value: ir.Value) -> Formula:
    """Matrices [..., n, m] as [b, n, m]."""
    return Formula(value if rank(value) == 3 else merged(value, rank(value) - 2))


def unbatched(node: AtenNode, results: Sequence[Formula | None]) -> tuple[ir.Value | None, ...]:
    """The results of an op, in their own shapes and types."""
    return tuple(
        None if item is None else reshaped(item.as_type(node.dtype(index)).value, node.shape(index))
        for index, item in enumerate(results)
    )


def is_empty(*values: ir.Value) -> bool:
    """Returns whether a value has no elements."""
    return any(0 in shape(value) for value in values)


def filled(node: AtenNode, *numbers_: float) -> tuple[ir.Value, ...]:
    """Results of an op that are full of a number each, as those on empty matrices."""
    return tuple(
        emit(FillOp, node.shape(index), value=np.array(number, node.dtype(index)))
        for index, number in enumerate(numbers_)
    )


def flipped(matrix: Formula) -> Formula:
    """The transposed matrices."""
    return Formula(transposed(matrix.value, (0, 2, 1)))


def product(left: Formula, right: Formula) -> Formula:
    """The products of matrices."""
    return Formula(emit(MatmulOp, left.value, right.value))


def rows(matrix: Formula) -> Formula:
    """The number of each row: [n, 1]"""
    return Formula(numbers(matrix.value, 1))


def columns(matrix: Formula) -> Formula:
    """The number of each column: [m]"""
    return Formula(numbers(matrix.value, 2))


def column(matrix: Formula, number: Formula) -> Formula:
    """A column as [b, n, 1]"""
    return expanded(Formula(gathered(matrix.value, number.value, 2)), 2)


def row(matrix: Formula, number: Formula) -> Formula:
    """A row as [b, 1, m]"""
    return expanded(Formula(gathered(matrix.value, number.value, 1)), 1)


def expanded(value: Formula, axis: int) -> Formula:
    """A new dimension of extent 1."""
    return Formula(emit(ExpandDimsOp, value.value, axes=(axis,)))


def summed(value: Formula, axis: int) -> Formula:
    """Sums along an axis, which stays with the extent 1."""
    return Formula(emit(ReduceSumOp, value.value, axes=(axis,), keepdims=True))


def greatest(value: Formula) -> Formula:
    """The greatest element of each matrix: [b, 1, 1]"""
    return Formula(emit(ReduceMaxOp, value.value, axes=(1, 2), keepdims=True))


def any_of(condition: Formula) -> ir.Value:
    """True if a condition holds for an element."""
    return emit(ReduceMaxOp, condition.value, axes=tuple(range(rank(condition.value))), keepdims=False)


def diagonal_of(matrix: Formula) -> Formula:
    """The main diagonals of square matrices as columns [b, n, 1]"""
    return summed(matrix.where(rows(matrix).equals(columns(matrix)), 0), 2)


def identity(matrix: Formula) -> Formula:
    """Ones on the main diagonal, of the shape of a matrix."""
    is_diagonal = rows(matrix).equals(columns(matrix))
    return filled_like(matrix, 1).where(is_diagonal, 0)


def filled_like(value: Formula, number: float, kind: Any = None) -> Formula:
    """A number in the shape of a value."""
    wanted = dtype(value.value) if kind is None else np.dtype(kind)
    return Formula(emit(FillOp, shape_of(value.value), value=np.array(number, wanted)))


def zeros(matrix: Formula, count: ir.Value, kind: Any = None) -> Formula:
    """Zeros [b, count, 1] for each matrix."""
    wanted = dtype(matrix.value) if kind is None else np.dtype(kind)
    first = reshaped(extent(matrix.value, 0), integers([1]))
    sizes = joined([first, reshaped(count, integers([1])), integers([1])])
    return Formula(emit(FillOp, sizes, value=np.zeros((), wanted)))


def spread(value: ir.Value, batches: Sequence[AtenSize]) -> Formula:
    """Matrices [..., n, m] broadcast to batches, as [b, n, m]."""
    if not batches:
        return batched(value)
    whole = joined([extents(batches), dims_of(value, rank(value) - 2, rank(value))])
    return batched(emit(DynamicBroadcastToOp, value, whole))


def as_columns(value: ir.Value) -> ir.Value:
    """Vectors as columns: [..., n] --> [..., n, 1]"""
    return emit(ExpandDimsOp, value, axes=(rank(value),))


def first(matrix: Formula, axis: int, count: ir.Value) -> Formula:
    """The first `count` rows or columns."""
    known = spec_of(count).value
    if known is not None:
        return Formula(part_along(matrix.value, axis, 0, int(known)))
    stop = reshaped(count, integers([1]))
    return Formula(emit(DynamicSliceOp, matrix.value, integers([0]), stop, integers([axis])))


def least(matrix: Formula) -> ir.Value:
    """The lesser of the numbers of rows and columns."""
    return Formula(extent(matrix.value, 1)).at_most(Formula(extent(matrix.value, 2))).value


def ordered_rows(matrix: Formula, order: Formula) -> Formula:
    """Rows in another order, for each batch: [b, n, m] at [b, n, 1]"""
    whole = joined([dims_of(matrix.value, 0, 1), dims_of(order.value, 1, 2), dims_of(matrix.value, 2, 3)])
    return Formula(elements(matrix.value, emit(DynamicBroadcastToOp, order.value, whole), 1))


def looped(count: ir.Value, initial: Sequence[Formula], step: _Step) -> list[Formula]:
    """Carries values through `count` iterations."""

    def body(number: ir.Value, values: Carried) -> tuple[Carried, list[Any]]:
        return [item.value for item in step(Formula(number), *map(Formula, values))], []

    return [Formula(item) for item in counted(count, [item.value for item in initial], body)[0]]


def number(value: int) -> ir.Value:
    """A scalar of i64."""
    return constant(np.array(value, np.int64))
