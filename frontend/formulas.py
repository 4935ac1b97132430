"""Formulas over values: Python's operators build elementwise ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ..dialects.core import Op
from ..dialects.stepwell import elementwise as ew
from .build import cast, emit, scalar


@dataclass(frozen=True, eq=False)
class Formula:
    """A value with operators. Numbers take its element type.

    Attributes:
        value: the value.
    """

    value: ir.Value

    def _with(self, op: type[Op], other: Any, is_first: bool = True) -> Formula:
        value = other.value if isinstance(other, Formula) else scalar(other, self.value)
        return Formula(emit(op, self.value, value) if is_first else emit(op, value, self.value))

    def __add__(self, other: Any) -> Formula:
        return self._with(ew.AddOp, other)

    def __radd__(self, other: Any) -> Formula:
        return self._with(ew.AddOp, other)

    def __sub__(self, other: Any) -> Formula:
        return self._with(ew.SubOp, other)

    def __rsub__(self, other: Any) -> Formula:
        return self._with(ew.SubOp, other, is_first=False)

    def __mul__(self, other: Any) -> Formula:
        return self._with(ew.MulOp, other)

    def __rmul__(self, other: Any) -> Formula:
        return self._with(ew.MulOp, other)

    def __truediv__(self, other: Any) -> Formula:
        return self._with(ew.DivOp, other)

    def __rtruediv__(self, other: Any) -> Formula:
        return self._with(ew.DivOp, other, is_first=False)

    def __mod__(self, other: Any) -> Formula:
        return self._with(ew.ModOp, other)

    def __pow__(self, other: Any) -> Formula:
        return self._with(ew.PowOp, other)

    def __rpow__(self, other: Any) -> Formula:
        return self._with(ew.PowOp, other, is_first=False)

    def __neg__(self) -> Formula:
        return self.by(ew.NegOp)

    def __abs__(self) -> Formula:
        return self.by(ew.AbsOp)

    def __lt__(self, other: Any) -> Formula:
        return self._with(ew.LessOp, other)

    def __le__(self, other: Any) -> Formula:
        return self._with(ew.LessEqualOp, other)

    def __gt__(self, other: Any) -> Formula:
        return self._with(ew.GreaterOp, other)

    def __ge__(self, other: Any) -> Formula:
        return self._with(ew.GreaterEqualOp, other)

    def __and__(self, other: Any) -> Formula:
        return self._with(ew.AndOp, other)

    def __or__(self, other: Any) -> Formula:
        return self._with(ew.OrOp, other)

    def __invert__(self) -> Formula:
        return self.by(ew.NotOp)

    def equals(self, other: Any) -> Formula:
        """True where elements are equal."""
        return self._with(ew.EqualOp, other)

    def at_least(self, other: Any) -> Formula:
        """The greater of both."""
        return self._with(ew.MaximumOp, other)

    def at_most(self, other: Any) -> Formula:
        """The lesser of both."""
        return self._with(ew.MinimumOp, other)

    def by(self, op: type[Op]) -> Formula:
        """Applies an op of one operand."""
        return Formula(emit(op, self.value))

    def as_type(self, kind: Any) -> Formula:
        """Converts it to an element type."""
        return Formula(cast(self.value, kind))

    def where(self, condition: Formula, other: Any) -> Formula:
        """Itself where a condition holds, else another value."""
        value = other.value if isinstance(other, Formula) else scalar(other, self.value)
        return Formula(emit(ew.SelectOp, condition.value, self.value, value))


def exp(x: Formula) -> Formula:
    """e to the power of x"""
    return x.by(ew.ExpOp)


def log(x: Formula) -> Formula:
    """The natural logarithm"""
    return x.by(ew.LogOp)


def sqrt(x: Formula) -> Formula:
    """The square root"""
    return x.by(ew.SqrtOp)


def sin(x: Formula) -> Formula:
    """The sine"""
    return x.by(ew.SinOp)


def cos(x: Formula) -> Formula:
    """The cosine"""
    return x.by(ew.CosOp)


def floor(x: Formula) -> Formula:
    """The greatest integer up to x"""
    return x.by(ew.FloorOp)


def polynomial(x: Formula, coefficients: Sequence[float]) -> Formula:
    """c[0] * x ** n + ... + c[n]"""
    made = x * coefficients[0] + coefficients[1] if len(coefficients) > 1 else x * 0 + coefficients[0]
    for coefficient in coefficients[2:]:
        made = made * x + coefficient
    return made


def chebyshev_series(x: Formula, coefficients: Sequence[float]) -> Formula:
    """c[0] * T(n, x / 2) + ... + c[n - 1] * T(1, x / 2) + c[n] / 2, by Clenshaw's recurrence"""
    before, made = x * 0, x * 0 + coefficients[0]
    last = before
    for coefficient in coefficients[1:]:
        last, before, made = before, made, x * made - before + coefficient
    return (made - last) * 0.5
