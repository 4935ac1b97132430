"""Sizes inside of a model that runs in parts: those of its inputs, those computed from them, and those of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import algebra
from .algebra import Dimension
from .buckets import names_of
from .expressions import Expression, evaluate, expression_of
from .ranges import HasShape, Range
from .substitution import names_of as sizes_in


@dataclass
class DeducedSizes:
    """The sizes that are known so far, by name.

    Attributes:
        ranges: the ranges of sizes that follow from no others.
        derived: sizes that follow from those, as expressions.
    """

    ranges: dict[str, Range]
    derived: dict[str, Expression] = field(default_factory=dict)

    def add(self, name: str, most: int) -> str:
        """Adds a size that depends on data, from 0 to `most`; returns its name."""
        self.ranges[name] = Range(0, most)
        return name

    def named(self, item: Expression, name: str) -> int | str:
        """Returns a number, or the name of a size that always has the value of an expression; if there is none, `name`.

        Args:
            item: an expression over known sizes.
            name: a new name.
        """
        dim = self._dimension(item)
        if isinstance(dim, int):
            return dim
        known = next((other for other in (*self.ranges, *self.derived) if self._dimension(other) == dim), None)
        if known is None:
            self.derived[name] = expression_of(dim)
        return known or name

    def of_inputs(self, inputs: Sequence[HasShape]) -> tuple[dict[str, Range], dict[str, Expression]]:
        """Returns the ranges of the sizes of some inputs, and those of them that follow from others of them.

        A size that follows only from sizes that the inputs do not have gets a range of its own.
        """
        names = names_of(inputs)
        ranges = {name: self.ranges[name] for name in names if name in self.ranges}
        derived: dict[str, Expression] = {}
        for name in names:
            if name in ranges:
                continue
            dim = self._dimension(name)
            if sizes_in(dim) <= ranges.keys():
                derived[name] = self.derived[name]
            else:
                ranges[name] = self._range(dim)
        return ranges, derived

    def _dimension(self, item: Expression) -> Dimension:
        sizes: Mapping[str, Dimension] = {name: algebra.size(name) for name in self.ranges}
        return evaluate(item, {**sizes, **{name: evaluate(other, sizes) for name, other in self.derived.items()}})

    def _range(self, dim: Dimension) -> Range:
        low, high = algebra.bounds(dim, {name: (values.low, values.high) for name, values in self.ranges.items()})
        assert high is not None, f"{dim} has no upper bound, although all sizes have one"
        return Range(max(low or 0, 0), high)
