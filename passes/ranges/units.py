"""Sizes in units of their steps, in which equal extents are equal expressions.

A size n of 32, 64, 96 .. elements is 32 * u with u = n // 32. Both n // 2 and n // 4 * 2 are then 16 * u, although they
are different expressions over n. A unit that differs from its size has another name, `n:32`, because the limits of both
hold while a model is bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...dialects import dims
from ...dialects.dims import Dim, Symbolic
from ...sizes import algebra, substitution
from ...sizes.algebra import Remainder
from ...sizes.expressions import evaluate_all, expression_of
from ...sizes.intervals import Interval
from ...sizes.ranges import MOST_COMBINATIONS, Range
from ...sizes.substitution import atoms_of

_PERIOD = 128
"""Number of steps within which a remainder is assumed to take all its values."""


@dataclass(frozen=True)
class Units:
    """The sizes that have ranges, and their units.

    Attributes:
        ranges: the ranges of the sizes, by their names in the model.
    """

    ranges: Mapping[str, Range]

    @cached_property
    def limits(self) -> Mapping[str, Interval]:
        """The least and the greatest value of each size and of its unit, by their names in expressions."""
        return {
            **{self._plain[name]: (values.low, values.high) for name, values in self.ranges.items()},
            **{
                self._unit[name]: (_units(values, values.low), _units(values, values.high))
                for name, values in self.ranges.items()
            },
        }

    @cached_property
    def _plain(self) -> Mapping[str, str]:
        """The names of the sizes in expressions, by their names in the model."""
        return {name: str(dims.named(name)) for name in self.ranges}

    @cached_property
    def _unit(self) -> Mapping[str, str]:
        """The names of the units in expressions, by the sizes' names in the model."""
        return {
            name: plain if self.ranges[name].step == 1 else f"{plain}:{self.ranges[name].step}"
            for name, plain in self._plain.items()
        }

    @cached_property
    def _over_units(self) -> Mapping[str, Dim]:
        """The sizes as expressions over units, by their names in expressions."""
        return {self._plain[name]: _size(self._unit[name], values) for name, values in self.ranges.items()}

    @cached_property
    def _over_sizes(self) -> Mapping[str, Dim]:
        """The units as expressions over sizes, by their names in expressions."""
        return {
            self._unit[name]: algebra.floor_div(algebra.size(name) - _origin(values), values.step)
            for name, values in self.ranges.items()
        }

    def of(self, dim: Dim) -> Dim:
        """An expression over sizes as one over units."""
        return dim if isinstance(dim, int) else substitution.bound(dim, self._over_units)

    def sizes(self, dim: Dim) -> Dim:
        """An expression over units as one over sizes, with the names of the model."""
        return dim if isinstance(dim, int) else substitution.bound(dim, self._over_sizes)

    def at(self, dim: Dim, sizes: Mapping[str, int]) -> int:
        """The value of an expression over units at given sizes."""
        if isinstance(dim, int):
            return dim
        units = {self._unit[name]: _units(values, sizes[name]) for name, values in self.ranges.items()}
        value = substitution.bound(dim, units)
        assert isinstance(value, int), f"{dim} depends on other sizes"
        return value

    def at_most(self, dim: Dim) -> int:
        """The greatest value of an expression over units; it need not be the one at the greatest sizes: 64 - n, n % 4.

        Values at the ends of the ranges and near them do, if an upper bound of the expression confirms them. Else it is
        evaluated at all sizes, or, if these are too many, it is the bound, which may be above the greatest value.
        """
        if isinstance(dim, int):
            return dim
        if dim not in self._most:
            self._most[dim] = self._greatest(dim)
        return self._most[dim]

    def _greatest(self, dim: Symbolic) -> int:
        found = max(self.at(dim, sizes) for sizes in self.ends(dim))
        bound = algebra.bounds(dim, self.limits)[1]
        if found == bound:
            return found
        over_sizes = self.sizes(dim)
        used = {name: self.ranges[name] for name in substitution.names_of(over_sizes)}
        along = [range(values.low, values.high + 1, values.step) for values in used.values()]
        if math.prod(map(len, along)) > MOST_COMBINATIONS:
            assert bound is not None, f"{dim} has no upper bound, although all sizes have one"
            return bound
        grid = np.meshgrid(*map(np.array, along), indexing="ij")
        every = dict(zip(used, map(np.ravel, grid), strict=True))
        return int(np.max(evaluate_all(expression_of(over_sizes), every)))

    @cached_property
    def _most(self) -> dict[Dim, int]:
        """The greatest values that were computed so far."""
        return {}

    def least(self, dim: Dim) -> int:
        """A lower bound of an expression over units."""
        low, _ = algebra.bounds(dim, self.limits)
        return min(self.at(dim, sizes) for sizes in self.ends(dim)) if low is None else low

    def is_always_zero(self, dim: Dim) -> bool:
        """Returns whether an expression is 0 at all sizes: by its form, or at the ends of the ranges and near them."""
        if isinstance(dim, int):
            return dim == 0
        return all(self.at(dim, sizes) == 0 for sizes in self._ends(and_near=True))

    def ends(self, dim: Dim) -> Iterator[dict[str, int]]:
        """Sizes at which an expression may have its least and its greatest value.

        They are all combinations of least and greatest sizes; if the expression wraps around, also those near them.
        """
        return self._ends(and_near=any(isinstance(atom, Remainder) for atom in atoms_of(dim)))

    def _ends(self, and_near: bool) -> Iterator[dict[str, int]]:
        for corner in itertools.product(*((values.low, values.high) for values in self.ranges.values())):
            sizes = dict(zip(self.ranges, corner, strict=True))
            yield sizes
            for name, values in self.ranges.items() if and_near else ():
                for size in range(values.high, values.low - 1, -values.step)[:_PERIOD]:
                    yield {**sizes, name: size}


def _origin(values: Range) -> int:
    """The size that has 0 units: 0 if all sizes are multiples of the step."""
    return values.low % values.step


def _units(values: Range, size: int) -> int:
    return (size - _origin(values)) // values.step


def _size(name: str, values: Range) -> Dim:
    unit: Symbolic = algebra.size(name)
    return values.low if values.low == values.high else unit * values.step + _origin(values)
