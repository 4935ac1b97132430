"""Triangular systems, and Cholesky's factorisation."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....formulas import Formula, sqrt
from ....index_arithmetic import extent
from ...node import AtenNode
from ...registry import imports
from .matrices import (
    batched,
    column,
    columns,
    filled,
    filled_like,
    flipped,
    identity,
    is_empty,
    looped,
    number,
    row,
    rows,
    spread,
    unbatched,
)


def solved(matrix: Formula, right: Formula, is_upper: bool, is_unit: bool = False) -> Formula:
    """X with matrix @ X = right, for a triangular matrix: one row of X after another, taken out of the rest."""
    count = Formula(extent(matrix.value, 1))
    index = rows(right)

    def step(done: Formula, x: Formula) -> list[Formula]:
        k = count - 1 - done if is_upper else done
        factors, known = column(matrix, k), row(x, k)
        if not is_unit:
            known = known / row(factors, k)
        rest = index < k if is_upper else index > k
        return [known.where(index.equals(k), (x - factors * known).where(rest, x))]

    return looped(count.value, [right], step)[0]


def solved_by(
    matrix: Formula,
    right: Formula,
    is_upper: bool,
    is_left: bool = True,
    is_flipped: bool = False,
    is_unit: bool = False,
) -> Formula:
    """Does the same for the transposed matrix, or for X @ matrix = right."""
    if not is_left:
        return flipped(solved_by(matrix, flipped(right), is_upper, True, not is_flipped, is_unit))
    return solved(flipped(matrix) if is_flipped else matrix, right, is_upper != is_flipped, is_unit)


@imports("aten.linalg_solve_triangular.default")
def solve_triangular(
    node: AtenNode, input: ir.Value, B: ir.Value, upper: bool, left: bool, unitriangular: bool
) -> ir.Value | None:
    """X with A @ X = B or X @ A = B."""
    if is_empty(input, B):
        return filled(node, 0)[0]
    matrix, right = (spread(item, node.sizes()[:-2]) for item in (input, B))
    return unbatched(node, [solved_by(matrix, right, upper, left, is_unit=unitriangular)])[0]


@imports("aten.triangular_solve.default")
def old_triangular_solve(
    node: AtenNode, input: ir.Value, A: ir.Value, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[ir.Value | None, ...]:
    """X with A @ X = B, and A."""
    if is_empty(input, A):
        return filled(node, 0, 0)
    matrix, right = (spread(item, node.sizes()[:-2]) for item in (A, input))
    return unbatched(node, [solved_by(matrix, right, upper, is_flipped=transpose, is_unit=unitriangular), matrix])


def factored(matrix: Formula) -> tuple[Formula, Formula]:
    """The lower triangular L with L @ transpose(L) = matrix, and the order of the first minor that is not positive."""
    index, across = rows(matrix), columns(matrix)

    def step(k: Formula, rest: Formula, info: Formula) -> list[Formula]:
        found = column(rest, k)
        pivot = row(found, k)
        info = (k + 1).as_type(np.int32).where(info.equals(0) & ~(pivot > 0), info)
        root = sqrt(pivot)
        below = (found / root).where(index > k, root.where(index.equals(k), 0))
        smaller = rest - below * flipped(below)
        return [below.where(across.equals(k), smaller.where(across > k, rest)), info]

    start = Formula(number(0))
    info = row(filled_like(column(matrix, start), 0, np.int32), start)
    made, info = looped(extent(matrix.value, 1), [matrix, info], step)
    return made.where(index >= across, 0), info


@imports("aten.linalg_cholesky_ex.default")
def cholesky(node: AtenNode, input: ir.Value, upper: bool, check_errors: bool) -> tuple[ir.Value | None, ...]:
    """The triangular factor of a positive matrix, and which minor is not positive."""
    if is_empty(input):
        return filled(node, 0, 0)
    matrix = batched(input)
    factor, info = factored(flipped(matrix) if upper else matrix)
    return unbatched(node, [flipped(factor) if upper else factor, info])


@imports("aten.cholesky.default")
def old_cholesky(node: AtenNode, input: ir.Value, upper: bool) -> ir.Value | None:
    """The triangular factor of a positive matrix."""
    if is_empty(input):
        return filled(node, 0)[0]
    matrix = batched(input)
    factor = factored(flipped(matrix) if upper else matrix)[0]
    return unbatched(node, [flipped(factor) if upper else factor])[0]


@imports("aten.cholesky_solve.default")
def cholesky_solve(node: AtenNode, input: ir.Value, input2: ir.Value, upper: bool) -> ir.Value | None:
    """X with L @ transpose(L) @ X = B."""
    if is_empty(input, input2):
        return filled(node, 0)[0]
    factor, right = (spread(item, node.sizes()[:-2]) for item in (input2, input))
    return unbatched(node, [_by_factor(factor, right, upper)])[0]


@imports("aten.cholesky_inverse.default")
def cholesky_inverse(node: AtenNode, input: ir.Value, upper: bool) -> ir.Value | None:
    """The inverse of L @ transpose(L)."""
    if is_empty(input):
        return filled(node, 0)[0]
    factor = batched(input)
    return unbatched(node, [_by_factor(factor, identity(factor), upper)])[0]


def _by_factor(factor: Formula, right: Formula, is_upper: bool) -> Formula:
    middle = solved_by(factor, right, is_upper, is_flipped=is_upper)
    return solved_by(factor, middle, is_upper, is_flipped=not is_upper)
