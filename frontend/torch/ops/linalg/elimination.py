"""LU factorisations by elimination, and systems, inverses and determinants by these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from mlir import ir

from .....dialects.stepwell.reduction import ArgmaxOp, ReduceProdOp
from ....build import dtype, emit, reshaped
from ....formulas import Formula, log
from ....index_arithmetic import extent, with_elements
from ...node import AtenNode
from ...registry import imports
from .matrices import (
    as_columns,
    batched,
    column,
    columns,
    diagonal_of,
    filled,
    filled_like,
    first,
    flipped,
    identity,
    is_empty,
    least,
    looped,
    number,
    ordered_rows,
    row,
    rows,
    spread,
    summed,
    unbatched,
    zeros,
)
from .triangular import solved_by


class Factors(NamedTuple):
    """A factorisation.

    Attributes:
        packed: U, and below its diagonal L without its diagonal of ones.
        pivots: the row with which row k was exchanged in step k, counted from 0: i64 [b, k, 1].
        order: the row of the matrix that each row of L @ U is: i64 [b, n, 1].
        info: the first step with a pivot of 0, counted from 1, or 0: i32 [b, 1, 1].
    """

    packed: Formula
    pivots: Formula
    order: Formula
    info: Formula


def factored(matrix: Formula, has_pivots: bool = True) -> Factors:
    """Eliminates one column after another, each with the greatest element below the diagonal as the pivot."""
    place, across = rows(matrix), columns(matrix)
    zero = Formula(number(0))
    order = place + filled_like(column(matrix, zero), 0, np.int64)
    steps = Formula(least(matrix))
    pivots = zeros(matrix, steps.value, np.int64)
    steps_place = rows(pivots)

    def step(k: Formula, rest: Formula, pivots: Formula, order: Formula, info: Formula) -> list[Formula]:
        if has_pivots:
            size = abs(column(rest, k)).where(place >= k, -1)
            chosen = Formula(emit(ArgmaxOp, size.value, axis=1, keepdims=True))
            rest, order = _exchanged(rest, k, chosen), _exchanged(order, k, chosen)
        else:
            chosen = k + filled_like(info, 0, np.int64)
        pivots = chosen.where(steps_place.equals(k), pivots)
        pivot_row = row(rest, k)
        pivot = column(pivot_row, k)
        info = (k + 1).as_type(np.int32).where(info.equals(0) & pivot.equals(0), info)
        below = column(rest, k) / pivot.where(~pivot.equals(0), 1)
        smaller = (rest - below * pivot_row).where(across > k, below.where(across.equals(k), rest))
        return [smaller.where(place > k, rest), pivots, order, info]

    info = filled_like(column(row(matrix, zero), zero), 0, np.int32)
    return Factors(*looped(steps.value, [matrix, pivots, order, info], step))


def _exchanged(matrix: Formula, k: Formula, other: Formula) -> Formula:
    """The matrix with row k and another one, which each batch names, exchanged."""
    place, own = rows(matrix), row(matrix, k)
    return ordered_rows(matrix, other).where(place.equals(k), own.where(place.equals(other), matrix))


def _solved(factors: Factors, right: Formula) -> Formula:
    """X with matrix @ X = right."""
    middle = solved_by(factors.packed, ordered_rows(right, factors.order), False, is_unit=True)
    return solved_by(factors.packed, middle, True)


def _solved_flipped(factors: Factors, right: Formula) -> Formula:
    """X with transpose(matrix) @ X = right."""
    middle = solved_by(factors.packed, right, True, is_flipped=True)
    made = solved_by(factors.packed, middle, False, is_flipped=True, is_unit=True)
    return ordered_rows(made, _inverted(factors.order))


def _inverted(order: Formula) -> Formula:
    """The inverse of permutations: the index of each number."""
    place = rows(order) + filled_like(order, 0)
    return Formula(with_elements(order.value, order.value, place.value, 1))


def _of_packed(packed: Formula, pivots: Formula) -> Factors:
    """A factorisation whose pivots are given, counted from 1: [b, k, 1]"""
    exchanged = (pivots - 1).as_type(np.int64)
    zero = Formula(number(0))
    start = rows(packed) + filled_like(column(packed, zero), 0, np.int64)

    def step(k: Formula, order: Formula) -> list[Formula]:
        return [_exchanged(order, k, row(exchanged, k))]

    (order,) = looped(extent(exchanged.value, 1), [start], step)
    return Factors(packed, exchanged, order, zero)


@imports("aten.linalg_lu_factor_ex.default")
def lu_factor(node: AtenNode, A: ir.Value, pivot: bool, check_errors: bool) -> tuple[ir.Value | None, ...]:
    """L and U in one matrix, the exchanged rows counted from 1, and where a pivot is 0."""
    if is_empty(A):
        return filled(node, 0, 0, 0)
    found = factored(batched(A), pivot)
    return unbatched(node, [found.packed, found.pivots + 1, found.info])


@imports("aten.linalg_lu.default")
def lu(node: AtenNode, A: ir.Value, pivot: bool) -> tuple[ir.Value | None, ...]:
    """P, L and U with P @ L @ U = A."""
    if is_empty(A):
        return _of_empty(node)
    found = factored(batched(A), pivot)
    permutation = _permutation(found.order) if pivot else None
    made = unbatched(node, [permutation, _lower(found.packed), _upper(found.packed)])
    return made if pivot else (filled(node, 0)[0], *made[1:])


def _of_empty(node: AtenNode) -> tuple[ir.Value, ...]:
    """P, L and U of a matrix without elements: identities."""
    made = []
    for index, plain in enumerate(filled(node, 0, 0, 0)):
        is_plain = is_empty(plain) or index == 2
        made.append(plain if is_plain else reshaped(identity(batched(plain)).value, node.shape(index)))
    return tuple(made)


def _lower(packed: Formula) -> Formula:
    count = least(packed)
    narrow = first(packed, 2, count)
    return narrow.where(rows(narrow) > columns(narrow), identity(narrow))


def _upper(packed: Formula) -> Formula:
    short = first(packed, 1, least(packed))
    return short.where(rows(short) <= columns(short), 0)


def _permutation(order: Formula) -> Formula:
    """P[i, j] = 1 where row j of L @ U is row i of the matrix."""
    return rows(order).equals(flipped(order))


@imports("aten.lu_unpack.default")
def lu_unpack(
    node: AtenNode, LU_data: ir.Value, LU_pivots: ir.Value, unpack_data: bool, unpack_pivots: bool
) -> tuple[ir.Value | None, ...]:
    """P, L and U from what `lu_factor` returns."""
    empty = filled(node, 0, 0, 0)
    if is_empty(LU_data):
        return _of_empty(node)
    packed = batched(LU_data)
    permutation = _permutation(_of_packed(packed, batched(as_columns(LU_pivots))).order) if unpack_pivots else None
    parts = (_lower(packed), _upper(packed)) if unpack_data else (None, None)
    made = unbatched(node, [permutation, *parts])
    return tuple(plain if item is None else item for item, plain in zip(made, empty, strict=True))


@imports("aten.linalg_lu_solve.default")
def lu_solve(node: AtenNode, LU: ir.Value, pivots: ir.Value, B: ir.Value, left: bool, adjoint: bool) -> ir.Value | None:
    """X with A @ X = B, for what `lu_factor` returns of A."""
    if is_empty(LU, B):
        return filled(node, 0)[0]
    packed, right = (spread(item, node.sizes()[:-2]) for item in (LU, B))
    factors = _of_packed(packed, spread(as_columns(pivots), node.sizes()[:-2]))
    if left:
        return unbatched(node, [(_solved_flipped if adjoint else _solved)(factors, right)])[0]
    return unbatched(node, [flipped((_solved if adjoint else _solved_flipped)(factors, flipped(right)))])[0]


@imports("aten._linalg_solve_ex.default")
def solve(node: AtenNode, A: ir.Value, B: ir.Value, left: bool, check_errors: bool) -> tuple[ir.Value | None, ...]:
    """X with A @ X = B, the factorisation of A, and where a pivot is 0."""
    if is_empty(A, B):
        return filled(node, 0, 0, 0, 0)
    known, wanted = node.argument("A"), node.argument("B")
    is_vector = wanted.dim() == 1 or wanted.shape == known.shape[:-1]
    batches = node.sizes()[: -1 if is_vector else -2]
    found, wide = factored(spread(A, batches)), spread(as_columns(B) if is_vector else B, batches)
    made = _solved(found, wide) if left else flipped(_solved_flipped(found, flipped(wide)))
    results: list[Formula | None] = [made, None, None, None]
    if any(map(node.is_used, (1, 2, 3))):
        own = factored(batched(A))
        results[1:] = [own.packed, own.pivots + 1, own.info]
    return unbatched(node, results)


@imports("aten.linalg_inv_ex.default")
def inverse(node: AtenNode, A: ir.Value, check_errors: bool) -> tuple[ir.Value | None, ...]:
    """The inverse, and where a pivot is 0."""
    if is_empty(A):
        return filled(node, 0, 0)
    matrix = batched(A)
    found = factored(matrix)
    return unbatched(node, [_solved(found, identity(matrix)), found.info])


def _sign(found: Factors) -> Formula:
    """The sign of the permutation: -1 for an odd number of exchanges."""
    exchanges = summed((~found.pivots.equals(rows(found.pivots))).as_type(np.int64), 1)
    return (1 - 2 * (exchanges % 2)).as_type(dtype(found.packed.value))


def _factored_as_stored(node: AtenNode, A: ir.Value) -> Factors:
    """The factorisation that torch computes of a matrix for its determinant, and reads for the gradient.

    That of its transpose if the matrix is contiguous: LAPACK reads memory by columns.
    """
    return factored(flipped(batched(A)) if node.argument("A").is_contiguous() else batched(A))


@imports("aten._linalg_det.default")
def determinant(node: AtenNode, A: ir.Value) -> tuple[ir.Value | None, ...]:
    """The determinant, and the factorisation."""
    if is_empty(A):
        return filled(node, 1, 0, 0)
    found = _factored_as_stored(node, A)
    whole = Formula(emit(ReduceProdOp, diagonal_of(found.packed).value, axes=(1,), keepdims=True))
    return unbatched(node, [whole * _sign(found), found.packed, found.pivots + 1])


@imports("aten._linalg_slogdet.default")
def log_determinant(node: AtenNode, A: ir.Value) -> tuple[ir.Value | None, ...]:
    """The sign and the logarithm of the determinant, and the factorisation."""
    if is_empty(A):
        return filled(node, 1, 0, 0, 0)
    found = _factored_as_stored(node, A)
    diagonal = diagonal_of(found.packed)
    signs = filled_like(diagonal, 1).where(diagonal > 0, filled_like(diagonal, -1).where(diagonal < 0, 0))
    sign = Formula(emit(ReduceProdOp, signs.value, axes=(1,), keepdims=True)) * _sign(found)
    return unbatched(node, [sign, summed(log(abs(diagonal)), 1), found.packed, found.pivots + 1])
