"""Indices as linear forms with folded constants, so that equal indices compare equal."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir
from mlir.dialects import affine

from ...passes.infra.base import PassError
from ...passes.ir.values import constant_index

LinearForm = tuple[int, tuple[tuple[ir.Value, int], ...]]
"""A constant and a sum of values with factors."""

LinearIndex = int | ir.Value | LinearForm
"""An index."""


def apply_linear(linear: LinearForm) -> ir.Value:
    """Emits the value of a linear form."""
    base, terms = linear
    if not terms:
        return constant_index(base)
    if base == 0 and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    expr = ir.AffineExpr.get_constant(base)
    for position, (_, factor) in enumerate(terms):
        expr = ir.AffineExpr.get_add(expr, ir.AffineExpr.get_dim(position) * factor)
    return affine.apply(ir.AffineMap.get(len(terms), 0, [expr]), [value for value, _ in terms])


def linear_form(expr: ir.AffineExpr, places: Mapping[int, LinearIndex]) -> LinearForm:
    """Returns an affine expression as a linear form, with its dimensions at `places`.

    Raises:
        PassError: the expression is not linear.
    """
    match expr.maybe_downcast():
        case ir.AffineConstantExpr(value=value):
            return value, ()
        case ir.AffineDimExpr(position=position):
            return linear_index(places[position])
        case ir.AffineAddExpr(lhs=lhs, rhs=rhs):
            (left, left_terms), (right, right_terms) = linear_form(lhs, places), linear_form(rhs, places)
            return left + right, left_terms + right_terms
        case ir.AffineMulExpr(lhs=lhs, rhs=rhs):
            factor = ir.AffineConstantExpr(rhs).value
            base, terms = linear_form(lhs, places)
            return base * factor, tuple((value, count * factor) for value, count in terms)
        case ir.AffineFloorDivExpr(lhs=lhs, rhs=rhs):
            base, terms = linear_form(lhs, places)
            if not terms:
                return base // ir.AffineConstantExpr(rhs).value, ()
    raise PassError(f"a register tile cannot be indexed by {expr}")


def factor_of(expr: ir.AffineExpr, dim: int) -> int:
    """Returns how much an expression grows if a dimension grows by one."""
    zeros: dict[int, LinearIndex] = dict.fromkeys(range(64), 0)
    return linear_form(expr, zeros | {dim: 1})[0] - linear_form(expr, zeros)[0]


def linear_index(place: LinearIndex) -> LinearForm:
    """Returns an index as a linear form."""
    if isinstance(place, tuple):
        return place
    return (place, ()) if isinstance(place, int) else (0, ((place, 1),))
