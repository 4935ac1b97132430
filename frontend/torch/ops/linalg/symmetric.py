"""Factorisations L @ D @ transpose(L) of symmetric matrices, with blocks of one or two rows in D, and systems by them.

The pivots are those of Bunch and Kaufman, as in LAPACK's `sytf2` and `sytrs`, so that results are PyTorch's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from mlir import ir

from .....dialects.stepwell.reduction import ArgmaxOp, ReduceMaxOp
from ....build import emit
from ....formulas import Formula
from ....index_arithmetic import extent
from ...node import AtenNode
from ...registry import imports
from .matrices import (
    as_columns,
    batched,
    column,
    columns,
    filled,
    filled_like,
    flipped,
    greatest,
    is_empty,
    looped,
    ordered_rows,
    row,
    rows,
    spread,
    summed,
    unbatched,
)

_ALPHA = (1 + 17**0.5) / 8
"""The share of the greatest other element that a pivot must have: it bounds the growth of elements the most."""


class _Block(NamedTuple):
    """Two rows and columns of D: [[first, beside], [beside, second]], each [b, 1, 1]."""

    first: Formula
    beside: Formula
    second: Formula

    def solved(self, upper: Formula, lower: Formula, is_wide: Formula) -> tuple[Formula, Formula]:
        """x, y with first * x + beside * y = upper, beside * x + second * y = lower; anything without such a block."""
        scale = (self.first * self.second - self.beside * self.beside).where(is_wide, 1)
        x = (upper * self.second - lower * self.beside) / scale
        return x, (lower * self.first - upper * self.beside) / scale


def _exchanged(matrix: Formula, one: Formula, other: Formula) -> Formula:
    """The matrix with two rows, which each batch names, exchanged."""
    place = rows(matrix)
    return ordered_rows(matrix, other.where(place.equals(one), one.where(place.equals(other), place)))


def _factors(matrix: Formula) -> tuple[Formula, Formula, Formula]:
    """L below the diagonal and D in one matrix; the pivots, counted from 1, negative in blocks of two; the info."""
    place, across = rows(matrix), columns(matrix)
    size = extent(matrix.value, 1)
    lower = matrix.where(place >= across, 0)
    whole = lower + flipped(lower.where(place > across, 0))

    def step(k: Formula, rest: Formula, pivots: Formula, is_second: Formula, info: Formula) -> list[Formula]:
        following = (k + 1).at_most(Formula(size) - 1)
        own = column(rest, k)
        below = abs(own).where(place > k, -1)
        chosen = Formula(emit(ArgmaxOp, below.value, axis=1, keepdims=True))
        most = Formula(emit(ReduceMaxOp, below.value, axes=(1,), keepdims=True)).at_least(0)
        other = ordered_rows(rest, chosen)
        others = greatest(abs(other).where((across >= k) & ~across.equals(chosen), 0))
        diagonal = abs(row(own, k))
        keeps = (diagonal >= most * _ALPHA) | (diagonal >= most * _ALPHA * (most / others))
        takes = abs(summed(other.where(across.equals(chosen), 0), 2)) >= others * _ALPHA
        is_wide = ~keeps & ~takes & ~is_second
        here = k + filled_like(chosen, 0)
        target = here.where(keeps, chosen)
        moved = _exchanged(rest, (following + filled_like(chosen, 0)).where(is_wide, here), target)
        moved = flipped(_exchanged(flipped(moved), (following + filled_like(chosen, 0)).where(is_wide, here), target))
        moved = moved.where((place >= k) & (across >= k), rest)
        made = _without_two(moved, k, following, is_wide).where(is_wide, _without_one(moved, k))
        shown = target + 1
        is_own = place.equals(k) & ~is_second
        both = is_wide & (place.equals(k) | place.equals(following))
        pivots = (-shown).where(both, shown.where(is_own & ~is_wide, pivots))
        is_zero = (diagonal + most).equals(0) & info.equals(0) & ~is_second
        info = (k + 1).as_type(np.int32).where(is_zero, info)
        return [rest.where(is_second, made), pivots, is_wide, info]

    pivots = filled_like(column(matrix, Formula(extent(matrix.value, 1)) - 1), 0, np.int64)
    info = filled_like(greatest(matrix), 0, np.int32)
    made, pivots, _, info = looped(size, [whole, pivots, ~info.equals(0), info], step)
    return made.where(place >= across, 0), pivots, info


def _without_one(matrix: Formula, k: Formula) -> Formula:
    """The rest after one row and column are eliminated, which hold that of L."""
    place, across, own = rows(matrix), columns(matrix), column(matrix, k)
    pivot = row(own, k)
    below = own.where(place > k, 0)
    share = below / pivot.where(~pivot.equals(0), 1)
    return share.where(across.equals(k) & (place > k), matrix - share * flipped(below))


def _without_two(matrix: Formula, k: Formula, following: Formula, is_wide: Formula) -> Formula:
    """The rest after two rows and columns are eliminated."""
    place, across = rows(matrix), columns(matrix)
    one, two = column(matrix, k), column(matrix, following)
    block = _Block(row(one, k), row(one, following), row(two, following))
    is_below = place > following
    left, right = one.where(is_below, 0), two.where(is_below, 0)
    x, y = block.solved(left, right, is_wide)
    rest = matrix - x * flipped(left) - y * flipped(right)
    return x.where(across.equals(k) & is_below, y.where(across.equals(following) & is_below, rest))


@imports("aten.linalg_ldl_factor_ex.default")
def ldl_factor(node: AtenNode, input: ir.Value, hermitian: bool, check_errors: bool) -> tuple[ir.Value | None, ...]:
    """L and D in one matrix, the exchanged rows, and where a pivot is 0."""
    if is_empty(input):
        return filled(node, 0, 0, 0)
    return unbatched(node, list(_factors(batched(input))))


@imports("aten.linalg_ldl_solve.default")
def ldl_solve(node: AtenNode, LD: ir.Value, pivots: ir.Value, B: ir.Value, hermitian: bool) -> ir.Value | None:
    """X with A @ X = B, for what `ldl_factor` returns of A."""
    if is_empty(LD, B):
        return filled(node, 0)[0]
    batches = node.sizes()[:-2]
    packed, right = spread(LD, batches), spread(B, batches)
    exchanged = spread(as_columns(pivots), batches).as_type(np.int64)
    place, size = rows(packed), extent(packed.value, 1)

    def down(k: Formula, right: Formula, is_second: Formula) -> list[Formula]:
        """Solves L @ D @ Y = B."""
        pivot, following = row(exchanged, k), (k + 1).at_most(Formula(size) - 1)
        is_wide = (pivot < 0) & ~is_second
        start = (following + filled_like(pivot, 0)).where(is_wide, k + filled_like(pivot, 0))
        moved = _exchanged(right, start, abs(pivot) - 1)
        one, two = column(packed, k), column(packed, following)
        upper, lower = row(moved, k), row(moved, following)
        diagonal = row(one, k)
        single = moved - one.where(place > k, 0) * upper
        single = (upper / diagonal.where(~is_wide & ~is_second, 1)).where(place.equals(k), single)
        is_below = place > following
        double = moved - one.where(is_below, 0) * upper - two.where(is_below, 0) * lower
        x, y = _Block(diagonal, row(one, following), row(two, following)).solved(upper, lower, is_wide)
        double = x.where(place.equals(k), y.where(place.equals(following), double))
        return [right.where(is_second, double.where(is_wide, single)), is_wide]

    def up(number: Formula, right: Formula, is_first: Formula) -> list[Formula]:
        """Solves transpose(L) @ X = Y."""
        k = Formula(size) - 1 - number
        pivot, before = row(exchanged, k), (k - 1).at_least(0)
        is_wide = (pivot < 0) & ~is_first
        known = right.where(place > k, 0)
        own, other = (row(right, place_) - summed(column(packed, place_) * known, 1) for place_ in (k, before))
        made = own.where(place.equals(k), right)
        made = other.where(place.equals(before) & is_wide, made)
        moved = _exchanged(made, k + filled_like(pivot, 0), abs(pivot) - 1)
        return [right.where(is_first, moved), is_wide]

    none = filled_like(row(exchanged, Formula(size) - 1), 0) > 0
    middle, _ = looped(size, [right, none], down)
    made, _ = looped(size, [middle, none], up)
    return unbatched(node, [made])[0]
