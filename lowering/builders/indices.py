"""Index arithmetic with constant folding: an index is an `int` or a value of type index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, scf

Index = int | ir.Value


def value_of(index: Index) -> ir.Value:
    """Returns `index` as an SSA value."""
    return arith.constant(ir.IndexType.get(), index) if isinstance(index, int) else index


def add(lhs: Index, rhs: Index) -> Index:
    """Returns `lhs + rhs`."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs + rhs
    if lhs == 0 or rhs == 0:
        return rhs if lhs == 0 else lhs
    return arith.addi(value_of(lhs), value_of(rhs))


def subtract(lhs: Index, rhs: Index) -> Index:
    """Returns `lhs - rhs`."""
    if isinstance(rhs, int):
        return add(lhs, -rhs)
    return arith.subi(value_of(lhs), rhs)


def multiply(lhs: Index, rhs: Index) -> Index:
    """Returns `lhs * rhs`."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs * rhs
    if lhs == 1 or rhs == 1:
        return rhs if lhs == 1 else lhs
    return 0 if 0 in (lhs, rhs) else arith.muli(value_of(lhs), value_of(rhs))


def ceil_divide(lhs: Index, rhs: int) -> Index:
    """Returns `ceil(lhs / rhs)` of non-negative numbers."""
    if isinstance(lhs, int):
        return -(-lhs // rhs)
    return lhs if rhs == 1 else arith.divui(value_of(add(lhs, rhs - 1)), value_of(rhs))


def divide(lhs: Index, rhs: Index) -> tuple[Index, Index]:
    """Returns the quotient and the remainder of non-negative numbers."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return divmod(lhs, rhs)
    if rhs == 1:
        return lhs, 0
    quotient = arith.divui(value_of(lhs), value_of(rhs))
    return quotient, subtract(lhs, multiply(quotient, rhs))


def clamp(index: Index, low: int, high: int) -> Index:
    """Returns `min(max(index, low), high)`."""
    return at_most(at_least(index, low), high)


def at_most(index: Index, high: Index) -> Index:
    """Returns `min(index, high)`."""
    if isinstance(index, int) and isinstance(high, int):
        return min(index, high)
    return arith.minsi(value_of(index), value_of(high))


def at_least(index: Index, low: Index) -> Index:
    """Returns `max(index, low)`."""
    if isinstance(index, int) and isinstance(low, int):
        return max(index, low)
    return arith.maxsi(value_of(index), value_of(low))


def affine(expr: ir.AffineExpr, dims: Sequence[Index]) -> Index:
    """Evaluates an affine expression over loop dimensions at one point of the loops.

    Raises:
        ValueError: the expression is not linear.
    """
    match expr.maybe_downcast():
        case ir.AffineDimExpr(position=position):
            return dims[position]
        case ir.AffineConstantExpr(value=value):
            return value
        case ir.AffineAddExpr() as both:
            return add(affine(both.lhs, dims), affine(both.rhs, dims))
        case ir.AffineMulExpr() as both:
            return multiply(affine(both.lhs, dims), affine(both.rhs, dims))
    raise ValueError(f"not a linear index: {expr}")


def coefficient(expr: ir.AffineExpr, dim: int | None) -> int:
    """Returns the coefficient of loop dimension `dim` in a linear expression."""
    match expr.maybe_downcast():
        case ir.AffineDimExpr(position=position):
            return int(position == dim)
        case ir.AffineConstantExpr():
            return 0
        case ir.AffineAddExpr() as both:
            return coefficient(both.lhs, dim) + coefficient(both.rhs, dim)
        case ir.AffineMulExpr(lhs=lhs, rhs=rhs):
            factor = rhs.maybe_downcast()
            if isinstance(factor, ir.AffineConstantExpr):
                return coefficient(lhs, dim) * factor.value
    raise ValueError(f"not a linear index: {expr}")


def loop(
    lower: Index,
    upper: Index,
    step: int,
    carried: Sequence[ir.Value],
    body: Callable[[Index, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Emits `for index in range(lower, upper, step): carried = body(index, carried)`.

    No loop is emitted if the bounds are constant and there is at most one iteration.
    """
    if isinstance(lower, int) and isinstance(upper, int):
        if upper <= lower:
            return list(carried)
        if upper <= lower + step:
            return body(lower, list(carried))
    op = scf.ForOp(value_of(lower), value_of(upper), value_of(step), list(carried))
    with ir.InsertionPoint(op.body):
        scf.YieldOp(body(op.induction_variable, list(op.inner_iter_args)))
    return list(op.results)
