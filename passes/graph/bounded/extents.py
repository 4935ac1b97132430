"""How much of a dimension holds data: of a tensor that is as large as its upper bound, a prefix, or prefixes of parts.

A dimension is a list of factors as of a reshape. [batch, length] merged into one dimension has the factors batch and
length: of the bound's 64 * 512 elements those hold data whose position is below both extents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects import dims
from ....dialects.dims import Dim, Sym


@dataclass(frozen=True)
class Factor:
    """A part of a dimension.

    Attributes:
        extent: how many elements hold data, a number or an expression over the sizes that vary.
        size: how many elements there are.
    """

    extent: Dim
    size: int

    @property
    def is_dynamic(self) -> bool:
        """Whether the extent is not known in numbers."""
        return isinstance(self.extent, Sym)


Extent = tuple[Factor, ...]
"""One dimension, the outermost factor first."""


def whole(size: int) -> Extent:
    """A dimension all of which holds data."""
    return (Factor(size, size),)


def is_dynamic(extent: Extent) -> bool:
    """Whether the size of a dimension is not known in numbers."""
    return any(factor.is_dynamic for factor in extent)


def size_of(extent: Extent) -> int:
    """The elements of a dimension at its bound."""
    return math.prod(factor.size for factor in extent)


def count_of(extent: Extent) -> Dim:
    """The elements of a dimension that hold data."""
    return dims.product(factor.extent for factor in extent)


def regroup(old: Sequence[Extent], shape: Sequence[int]) -> list[Extent] | None:
    """The dimensions of a reshape to `shape`; None where a dimension whose size varies would be taken apart."""
    factors = [factor for extent in old for factor in extent if factor.size != 1 or factor.is_dynamic]
    found: list[Extent] = []
    for size in shape:
        group: list[Factor] = []
        while math.prod(factor.size for factor in group) < size:
            if not factors:
                return None
            wanted = size // math.prod(factor.size for factor in group)
            first = factors.pop(0)
            if first.size > wanted:
                if first.is_dynamic or first.size % wanted:
                    return None
                factors.insert(0, Factor(first.size // wanted, first.size // wanted))
                first = Factor(wanted, wanted)
            group.append(first)
        if math.prod(factor.size for factor in group) != size:
            return None
        found.append(_simple(group) if group else whole(size))
    return None if any(factor.size != 1 for factor in factors) else found


def _simple(group: Sequence[Factor]) -> Extent:
    """The same dimension with neighbouring static factors as one."""
    simple: list[Factor] = []
    for factor in group:
        if simple and not factor.is_dynamic and not simple[-1].is_dynamic:
            last = simple.pop()
            factor = Factor(last.size * factor.size, last.size * factor.size)
        simple.append(factor)
    return tuple(simple)


Expression = int | str | list
"""An expression as the runtime reads it: a number, the name of a size, or [operator, left, right]."""

_OPERATORS = {
    ir.AffineAddExpr: "+",
    ir.AffineMulExpr: "*",
    ir.AffineModExpr: "mod",
    ir.AffineFloorDivExpr: "floordiv",
    ir.AffineCeilDivExpr: "ceildiv",
}


def expression(dim: Dim) -> Expression:
    """An expression over sizes in the runtime's form."""
    return dim if isinstance(dim, int) else _expression(dim.expr)


def _expression(expr: ir.AffineExpr) -> Expression:
    match expr.maybe_downcast():
        case ir.AffineConstantExpr(value=value):
            return value
        case ir.AffineSymbolExpr():
            return str(Sym(expr))
        case ir.AffineBinaryExpr() as binary:
            return [_OPERATORS[type(binary)], _expression(binary.lhs), _expression(binary.rhs)]
    raise ValueError(f"not an expression over sizes: {expr}")


def at(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """What a dimension is at given sizes; None if it depends on others."""
    bound = dims.bind(dim, sizes)
    return bound if isinstance(bound, int) else None


class Fitter:
    """Finds the expressions over sizes that have given values at the sizes that were looked at."""

    def __init__(self, samples: Sequence[Mapping[str, int]]) -> None:
        self._samples = samples
        self._known: dict[tuple[int, ...], Dim] = {}
        for name in samples[0]:
            self.learn(dims.symbol(name))

    def values(self, dim: Dim) -> tuple[int | None, ...]:
        """What `dim` is at each of the sizes."""
        return tuple(at(dim, sizes) for sizes in self._samples)

    def learn(self, dim: Dim) -> None:
        """Remembers an expression that occurs, as what others are likely made of."""
        values = self.values(dim)
        if None not in values and len(set(values)) > 1:
            self._known.setdefault(tuple(value for value in values if value is not None), dim)

    def fit(self, values: Sequence[int]) -> Dim | None:
        """The expression with these values; None where there is none of a simple form."""
        wanted = tuple(values)
        if len(set(wanted)) == 1:
            return wanted[0]
        if wanted in self._known:
            return self._known[wanted]
        for known, dim in self._known.items():
            found = _linear(known, wanted, dim)
            if found is not None and self.values(found) == wanted:
                return found
        return self._product(wanted)

    def _product(self, wanted: tuple[int, ...]) -> Dim | None:
        entries = list(self._known.items())
        for position, (first, left) in enumerate(entries):
            for second, right in entries[position:]:
                values = tuple(a * b for a, b in zip(first, second, strict=True))
                found = _linear(values, wanted, left * right)
                if found is not None and self.values(found) == wanted:
                    return found
        return None


def _linear(known: Sequence[int], wanted: Sequence[int], dim: Dim) -> Dim | None:
    """`dim * factor + offset` (or its quotient) as the first two different samples say."""
    pairs = [(a, b) for a, b in zip(known, wanted, strict=True) if a != known[0]]
    if not pairs:
        return None
    rise, run = pairs[0][1] - wanted[0], pairs[0][0] - known[0]
    if rise == 0:
        return None
    if rise % run == 0:
        factor = rise // run
        return dim * factor + (wanted[0] - known[0] * factor)
    if run % rise == 0 and run // rise > 1:
        divisor = run // rise
        return (dim + (wanted[0] * divisor - known[0])) // divisor
    return None
