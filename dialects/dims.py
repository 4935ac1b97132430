"""Symbolic dimensions: a tensor dimension is an `int`, or a `Sym` expression over named symbols.

Expressions are MLIR affine expressions (floordiv, ceildiv, mod included), so equal dimensions compare equal after
MLIR's own simplification. They live in one process-wide context of their own, which makes them independent of the
context in which a module is compiled.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlir import ir

_CONTEXT = ir.Context()
_NAMES: list[str] = []
_POSITIONS: dict[str, int] = {}
_FRESH = itertools.count()


@dataclass(frozen=True)
class Sym:
    """A dimension that is not known at compile time, as an expression over named symbols."""

    expr: ir.AffineExpr

    def __add__(self, other: Dim) -> Dim:
        return _wrap(self.expr + _expr(other))

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _wrap(self.expr + _expr(other) * -1)

    def __rsub__(self, other: Dim) -> Dim:
        return _wrap(_expr(other) + self.expr * -1)

    def __mul__(self, other: Dim) -> Dim:
        return _wrap(self.expr * _expr(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return 1 if other == self else _wrap(ir.AffineExpr.get_floor_div(self.expr, _expr(other)))

    def __mod__(self, other: Dim) -> Dim:
        return _wrap(ir.AffineExpr.get_mod(self.expr, _expr(other)))

    def __str__(self) -> str:
        return re.sub(r"s(\d+)", lambda match: _NAMES[int(match.group(1))], str(self.expr))

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(str(self))


Dim = int | Sym
Shape = tuple[Dim, ...]

MAX_RANK = 64
"""Maximum number of dimensions of a numpy array."""


def symbol(name: str) -> Sym:
    """The symbol called `name`; the same name always denotes the same dimension."""
    if name not in _POSITIONS:
        _POSITIONS[name] = len(_NAMES)
        _NAMES.append(name)
    return Sym(ir.AffineExpr.get_symbol(_POSITIONS[name], _CONTEXT))


def unknown() -> Sym:
    """A fresh symbol: a dimension about which nothing is known."""
    return symbol(f"?{next(_FRESH)}")


def text(dim: Dim) -> str:
    """`dim` as it is spelt in a type: a number, an expression over named symbols, or `?` for each unnamed symbol."""
    return re.sub(r"\?\d+", "?", str(dim))


def ceil_div(dim: Dim, divisor: Dim) -> Dim:
    """`ceil(dim / divisor)`."""
    if isinstance(dim, int) and isinstance(divisor, int):
        return -(-dim // divisor)
    return _wrap(ir.AffineExpr.get_ceil_div(_expr(dim), _expr(divisor)))


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    return math.prod(dims)


def is_static(shape: Iterable[Dim]) -> bool:
    """Returns whether every dimension of `shape` is a number."""
    return all(isinstance(dim, int) for dim in shape)


def numbers(shape: Iterable[Dim]) -> tuple[int, ...]:
    """Returns `shape` as integers.

    Raises:
        ValueError: a dimension is not a number.
    """
    shape = tuple(shape)
    known = tuple(dim for dim in shape if isinstance(dim, int))
    if len(known) < len(shape):
        raise ValueError(f"the shape ({', '.join(map(str, shape))}) is not static: it has symbolic dimensions")
    return known


def bind(dim: Dim, values: Mapping[str, int]) -> Dim:
    """`dim` with the symbols named in `values` replaced by numbers."""
    return dim if isinstance(dim, int) else _bind(dim.expr, values)


def _bind(expr: ir.AffineExpr, values: Mapping[str, int]) -> Dim:
    match expr.maybe_downcast():
        case ir.AffineSymbolExpr(position=position):
            return values.get(_NAMES[position], Sym(expr))
        case ir.AffineConstantExpr(value=value):
            return value
        case ir.AffineBinaryExpr() as binary:
            lhs, rhs = _bind(binary.lhs, values), _bind(binary.rhs, values)
            return _OPERATORS[type(binary)](lhs, rhs)
    raise ValueError(f"not an expression over symbols: {expr}")


def _expr(dim: Dim) -> ir.AffineExpr:
    return dim.expr if isinstance(dim, Sym) else ir.AffineExpr.get_constant(dim, _CONTEXT)


def _wrap(expr: ir.AffineExpr) -> Dim:
    simple = expr.maybe_downcast()
    return simple.value if isinstance(simple, ir.AffineConstantExpr) else Sym(simple)


_OPERATORS: dict[type, Callable[[Any, Any], Dim]] = {
    ir.AffineAddExpr: operator.add,
    ir.AffineMulExpr: operator.mul,
    ir.AffineModExpr: operator.mod,
    ir.AffineFloorDivExpr: operator.floordiv,
    ir.AffineCeilDivExpr: ceil_div,
}
