"""Index arithmetic, folded at compile time as far as possible.

An index is a Python int, or a value of MLIR's type `index` that is non-negative unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

Index = int | ir.Value

MOST_ELEMENTS = 2**31 - 1
"""Maximum number of elements that 32-bit indices can address."""


def value_of(index: Index) -> ir.Value:
    """Returns the index as a value."""
    return arith.ConstantOp(ir.IndexType.get(), index).result if isinstance(index, int) else index


def add(left: Index, right: Index) -> Index:
    """Returns the sum."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if left == 0:
        return right
    return left if right == 0 else arith.addi(value_of(left), value_of(right))


def multiply(left: Index, right: Index) -> Index:
    """Returns the product."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    for one, other in ((left, right), (right, left)):
        if isinstance(one, int) and one in (0, 1):
            return other if one else 0
    return arith.muli(value_of(left), value_of(right))


def divide(index: Index, divisor: int) -> Index:
    """Returns the quotient of a non-negative index."""
    if isinstance(index, int):
        return index // divisor
    return index if divisor == 1 else arith.divui(index, value_of(divisor))


def remainder(index: Index, divisor: int) -> Index:
    """Returns the remainder of a non-negative index."""
    if isinstance(index, int):
        return index % divisor
    return 0 if divisor == 1 else arith.remui(index, value_of(divisor))


def evaluate(expression: ir.AffineExpr, dims: Sequence[Index]) -> Index:
    """Evaluates an affine expression at the given indices; dividends may be negative."""
    if isinstance(expression, ir.AffineConstantExpr):
        return ir.AffineConstantExpr(expression).value
    if isinstance(expression, ir.AffineDimExpr):
        return dims[ir.AffineDimExpr(expression).position]
    binary = ir.AffineBinaryExpr(expression)
    left, right = evaluate(binary.lhs, dims), evaluate(binary.rhs, dims)
    if isinstance(expression, ir.AffineAddExpr):
        return add(left, right)
    if isinstance(expression, ir.AffineMulExpr):
        return multiply(left, right)
    assert isinstance(right, int)
    if isinstance(left, int):
        quotient = -(-left // right) if isinstance(expression, ir.AffineCeilDivExpr) else left // right
        return left % right if isinstance(expression, ir.AffineModExpr) else quotient
    if isinstance(expression, ir.AffineModExpr):
        below = arith.remsi(left, value_of(right))
        is_negative = arith.cmpi(arith.CmpIPredicate.slt, below, value_of(0))
        return arith.select(is_negative, arith.addi(below, value_of(right)), below)
    rounded = arith.ceildivsi if isinstance(expression, ir.AffineCeilDivExpr) else arith.floordivsi
    return rounded(left, value_of(right))


def linearize(indices: Sequence[Index], shape: Sequence[int]) -> Index:
    """Returns the position of an element in row-major order."""
    position: Index = 0
    for index, extent in zip(indices, shape, strict=True):
        position = add(multiply(position, extent), index) if extent != 1 else position
    return position


def delinearize(position: Index, shape: Sequence[int]) -> list[Index]:
    """Returns the indices of the element at a position in row-major order."""
    indices: list[Index] = [0] * len(shape)
    real = [axis for axis, extent in enumerate(shape) if extent != 1]
    for axis in reversed(real):
        is_first = axis == real[0]
        indices[axis] = position if is_first else remainder(position, shape[axis])
        position = divide(position, shape[axis])
    return indices


def offset(indices: Sequence[Index], strides: Sequence[int]) -> Index:
    """Returns the distance in elements from the first element to the one at these indices."""
    total: Index = 0
    for index, stride in zip(indices, strides, strict=True):
        total = add(total, multiply(index, stride))
    return total
