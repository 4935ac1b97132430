"""Eigenvalues of symmetric matrices, and singular values, by Jacobi's rotations.

A round rotates disjoint pairs of columns, all at once. A sweep has each pair once; a few sweeps suffice.
"""

from __future__ import annotations

import numpy as np
from mlir import ir

from .....dialects.stepwell.movement import DynamicBroadcastToOp
from ....build import constant, dtype, emit, gathered, joined, known_number, part_along, reshaped, shape_of
from ....formulas import Formula, sqrt
from ....index_arithmetic import elements
from ....loops import Carried, repeated
from ...node import AtenNode
from ...registry import imports
from ..sorting import ordered
from . import reflections
from .matrices import (
    any_of,
    batched,
    columns,
    diagonal_of,
    filled,
    filled_like,
    flipped,
    greatest,
    identity,
    is_empty,
    rows,
    summed,
    unbatched,
)

_MOST_SWEEPS = 40
"""Maximum number of sweeps: a choice; LAPACK's DGESVJ makes at most 30, and convergence is quadratic in the end."""


def _partners(node: AtenNode, count: int) -> Formula:
    """For each round of a sweep, the column with which each one is paired; a tournament of all columns [rounds, n].

    With an odd number of columns, one is paired with itself.
    """
    players = count + count % 2
    table = np.zeros((players - 1, players), np.int64)
    circle = np.arange(players)
    for number in range(players - 1):
        table[number, circle] = circle[::-1]
        circle = np.concatenate([circle[:1], np.roll(circle[1:], 1)])
    table = np.where(table >= count, np.arange(players), table)[:, :count]
    return Formula(node.importer.weight(f"{node.name}.partners", table))


def _rotation(
    own: Formula, other: Formula, between: Formula, partner: Formula, place: Formula
) -> tuple[Formula, Formula]:
    """Cosine and sine by which each column and its partner become orthogonal.

    Args:
        own: the square of the column.
        other: that of its partner.
        between: their product.
        partner: the number of the partner.
        place: the number of the column.
    """
    is_moved = ~between.equals(0) & ~partner.equals(place)
    slope = (other - own) / (2 * between).where(is_moved, 1)
    sign = filled_like(slope, 1).where(slope > 0, -1)
    # The first one of two equal columns turns forwards.
    first = filled_like(slope, 1).where(partner > place, -1)
    sign = first.where(slope.equals(0), sign)
    size = abs(slope)
    bounded = size.at_most(1e18)  # its square must not overflow
    tangent = sign / (bounded + sqrt(1 + bounded * bounded))
    tangent = tangent.where(is_moved, 0)
    cosine = 1 / sqrt(1 + tangent * tangent)
    return cosine, tangent * cosine


def _turned(matrix: Formula, partner: Formula, cosine: Formula, sine: Formula) -> Formula:
    """Columns rotated with their partners: [b, m, n] by [b, 1, n]"""
    return matrix * cosine - Formula(gathered(matrix.value, partner.value, 2)) * sine


def symmetric_eigen(node: AtenNode, matrix: Formula) -> tuple[Formula, Formula]:
    """Eigenvalues as columns [b, n, 1] in ascending order, and the eigenvectors in columns."""
    count = known_number(matrix.value, 1, "the number of rows of a matrix with eigenvalues")
    lower = matrix.where(rows(matrix) >= columns(matrix), flipped(matrix))
    vectors = identity(matrix)
    if count > 1:
        table = _partners(node, count)
        rounds = int(table_rows(table))
        is_diagonal = rows(matrix).equals(columns(matrix))
        tiny = float(np.finfo(dtype(matrix.value)).eps)

        def goes_on(rest: Formula) -> ir.Value:
            off = greatest(abs(rest).where(~is_diagonal, 0))
            return any_of(off > greatest(abs(rest)) * (tiny / 8))

        def body(number: ir.Value, values: Carried) -> tuple[ir.Value, Carried]:
            rest, vectors = map(Formula, values)
            partner = Formula(gathered(table.value, (Formula(number) % rounds).value, 0))
            own = flipped(diagonal_of(rest))
            other = Formula(gathered(own.value, partner.value, 2))
            between = summed(rest.where(rows(rest).equals(partner), 0), 1)
            cosine, sine = _rotation(own, other, between, partner, columns(rest))
            rest = flipped(_turned(flipped(_turned(rest, partner, cosine, sine)), partner, cosine, sine))
            return goes_on(rest), [rest.value, _turned(vectors, partner, cosine, sine).value]

        limit = constant(np.array(_MOST_SWEEPS * rounds, np.int64))
        made = repeated(limit, goes_on(lower), [lower.value, vectors.value], body)
        lower, vectors = map(Formula, made)
    return _sorted(diagonal_of(lower), vectors, False)


def table_rows(table: Formula) -> int:
    """The number of rounds."""
    return known_number(table.value, 0, "the number of rounds")


def _sorted(values: Formula, vectors: Formula, descending: bool) -> tuple[Formula, Formula]:
    """Values [b, n, 1] in order, and the columns that belong to them."""
    count = known_number(values.value, 1, "the number of values")
    made, order = ordered(values.value, count, 1, descending)
    across = emit(DynamicBroadcastToOp, flipped(Formula(order)).value, shape_of(vectors.value))
    return Formula(made), Formula(elements(vectors.value, across, 2))


def singular(node: AtenNode, matrix: Formula) -> tuple[Formula, Formula, Formula]:
    """Singular values [b, n, 1] in descending order, these times U, and V, for at least as many rows as columns.

    Rotations of columns make them orthogonal; their lengths are the singular values.
    """
    count = known_number(matrix.value, 2, "the number of columns of a matrix with singular values")
    square = Formula(gathered(matrix.value, constant(np.zeros(count, np.int64)), 1))
    right = identity(square)
    if count > 1:
        table = _partners(node, count)
        rounds = int(table_rows(table))
        tiny = float(np.finfo(dtype(matrix.value)).eps)
        floor = float(np.finfo(dtype(matrix.value)).tiny)

        def body(number: ir.Value, values: Carried) -> tuple[ir.Value, Carried]:
            left, right = map(Formula, values[:2])
            quiet = Formula(values[2])
            partner = Formula(gathered(table.value, (Formula(number) % rounds).value, 0))
            own = summed(left * left, 1)
            other = Formula(gathered(own.value, partner.value, 2))
            between = summed(left * Formula(gathered(left.value, partner.value, 2)), 1)
            is_off = (abs(between) > sqrt(own) * sqrt(other) * tiny + floor) & ~partner.equals(columns(left))
            cosine, sine = _rotation(own, other, between.where(is_off, 0), partner, columns(left))
            quiet = (quiet * 0).where(Formula(any_of(is_off)), quiet + 1)
            left, right = (_turned(item, partner, cosine, sine) for item in (left, right))
            return (quiet < rounds).value, [left.value, right.value, quiet.value]

        limit = constant(np.array(_MOST_SWEEPS * rounds, np.int64))
        zero = constant(np.array(0, np.int64))
        made = repeated(limit, None, [matrix.value, right.value, zero], body)
        matrix, right = Formula(made[0]), Formula(made[1])
    lengths = flipped(sqrt(summed(matrix * matrix, 1)))
    values, right = _sorted(lengths, right, True)
    order = ordered(lengths.value, count, 1, True)[1]
    across = emit(DynamicBroadcastToOp, flipped(Formula(order)).value, shape_of(matrix.value))
    return values, Formula(elements(matrix.value, across, 2)), right


@imports("aten._linalg_eigh.default")
def eigh(node: AtenNode, A: ir.Value, UPLO: str, compute_v: bool) -> tuple[ir.Value | None, ...]:
    """Eigenvalues of symmetric matrices, and eigenvectors, whose signs differ from LAPACK's."""
    if is_empty(A):
        return filled(node, 0, 0)
    matrix = batched(A)
    values, vectors = symmetric_eigen(node, flipped(matrix) if UPLO.upper() == "U" else matrix)
    if not compute_v:
        return unbatched(node, [values])[0], filled(node, 0, 0)[1]
    return unbatched(node, [values, vectors])


def decomposed(node: AtenNode, matrix: Formula, is_full: bool) -> tuple[Formula, Formula, Formula]:
    """U, the singular values [b, k, 1], and V; for a wide matrix those of the transposed one are exchanged."""
    count = known_number(matrix.value, 1, "the number of rows"), known_number(matrix.value, 2, "the number of columns")
    if count[0] < count[1]:
        left, values, right = decomposed(node, flipped(matrix), is_full)
        return right, values, left
    values, scaled, right = singular(node, matrix)
    # Reflections complete the columns: those of singular values of 0 are not known otherwise.
    packed, factors = reflections.factored(scaled)
    left = (
        reflections.square_orthogonal(packed, factors) if is_full else reflections.orthogonal(packed, factors, packed)
    )
    signs = flipped(diagonal_of(Formula(part_along(packed.value, 1, 0, count[1]))))
    signs = filled_like(signs, 1).where(signs >= 0, -1)
    head = Formula(part_along(left.value, 2, 0, count[1])) * signs
    if is_full and count[0] > count[1]:
        rest = part_along(left.value, 2, count[1], count[0])
        head = Formula(joined([head.value, rest], 2))
    return head, values, right


@imports("aten._linalg_svd.default")
def svd(node: AtenNode, A: ir.Value, full_matrices: bool, compute_uv: bool) -> tuple[ir.Value | None, ...]:
    """U, singular values and transpose(V); the signs of their vectors differ from LAPACK's."""
    if is_empty(A):
        made = filled(node, 0, 0, 0)
        return tuple(
            item if index == 1 or is_empty(item) else reshaped(identity(batched(item)).value, node.shape(index))
            for index, item in enumerate(made)
        )
    matrix = batched(A)
    if not compute_uv:
        rows_, columns_ = (known_number(matrix.value, axis, "the extents of a matrix") for axis in (1, 2))
        values = singular(node, matrix if rows_ >= columns_ else flipped(matrix))[0]
        return (*filled(node, 0)[:1], unbatched(node, [None, values])[1], filled(node, 0, 0, 0)[2])
    left, values, right = decomposed(node, matrix, full_matrices)
    return unbatched(node, [left, values, flipped(right)])
