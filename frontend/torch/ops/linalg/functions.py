"""Pseudo-inverses and exponentials of matrices."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from .....dialects.stepwell.elementwise import CeilOp
from .....dialects.stepwell.reduction import ReduceMaxOp
from ....build import cast, dtype, emit, known_number, rank, reshaped
from ....formulas import Formula, log
from ...node import AtenNode
from ...registry import imports
from ...symbols import extents
from ..arithmetic import as_value
from ..movement import broadcast
from .matrices import batched, filled, flipped, greatest, identity, is_empty, looped, product, summed, unbatched
from .rotations import decomposed, symmetric_eigen

_TERMS = 18
"""The terms of the exponential's series that f64 can show, for matrices of norm 1."""


@imports("aten.linalg_pinv.atol_rtol_tensor")
def pseudo_inverse(
    node: AtenNode, input: ir.Value, atol: ir.Value | None, rtol: ir.Value | None, hermitian: bool
) -> ir.Value | None:
    """V @ diag(1 / s) @ transpose(U), without the singular values below a tolerance."""
    if is_empty(input):
        return filled(node, 0)[0]
    matrix = batched(input)
    if hermitian:
        values, right = symmetric_eigen(node, matrix)
        left = right
    else:
        left, values, right = decomposed(node, matrix, False)
    size = abs(values)
    most = greatest(size)
    bound = most * _tolerance(node, input, rtol, atol)
    if atol is not None:
        bound = bound.at_least(_per_matrix(node, input, atol))
    kept = (1 / values.where(size > bound, 1)).where(size > bound, 0)
    return unbatched(node, [product(right * flipped(kept), flipped(left))])[0]


def _tolerance(node: AtenNode, input: ir.Value, rtol: ir.Value | None, atol: ir.Value | None) -> Formula:
    kind = dtype(input)
    extents_ = [known_number(input, rank(input) - axis, "the extents of a matrix") for axis in (1, 2)]
    usual = float(np.finfo(kind).eps) * max(extents_)
    if rtol is not None:
        return _per_matrix(node, input, rtol)
    if atol is None:
        return Formula(as_value(usual, kind))
    # As in torch, an absolute tolerance above 0 replaces the relative one.
    given = _per_matrix(node, input, atol)
    return (given * 0).where(given > 0, usual)


def _per_matrix(node: AtenNode, input: ir.Value, value: ir.Value) -> Formula:
    """A number for each matrix as [b, 1, 1]."""
    wide = broadcast(cast(value, dtype(input)), node.sizes()[:-2])
    return batched(reshaped(wide, extents([*node.sizes()[:-2], 1, 1])))


@imports("aten.linalg_matrix_exp.default")
def exponential(node: AtenNode, input: ir.Value) -> ir.Value | None:
    """1 + A + A @ A / 2 + ...: the series for A / 2 ** s, of norm 1 at most, squared s times."""
    if is_empty(input):
        return filled(node, 0)[0]
    matrix = batched(cast(input, np.float64))  # the terms may be much greater than their sum
    norm = greatest(summed(abs(matrix), 1))
    squarings = (log(norm.at_least(1)) * (1 / math.log(2))).by(CeilOp)
    scaled, one = matrix / 2.0**squarings, identity(matrix)
    made = one
    for term in range(_TERMS, 0, -1):
        made = one + product(scaled, made) / term
    most = emit(ReduceMaxOp, cast(squarings.value, np.int64), axes=(0, 1, 2), keepdims=False)
    return unbatched(node, [looped(most, [made], lambda k, made: [_squared(k, made, squarings)])[0]])[0]


def _squared(k: Formula, made: Formula, squarings: Formula) -> Formula:
    return product(made, made).where(k.as_type(dtype(squarings.value)) < squarings, made)
