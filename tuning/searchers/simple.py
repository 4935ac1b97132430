"""Searchers that learn nothing: exhaustive and random."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from .searcher import Candidate, Searcher


@dataclass
class ExhaustiveSearcher(Searcher):
    """Proposes every candidate of a space, those nearest to the default first."""

    _left: Iterator[Candidate] | None = field(default=None, init=False)

    def propose(self) -> Candidate | None:
        if self._left is None:
            self._left = self._all()
        return next(self._left, None)

    def _all(self) -> Iterator[Candidate]:
        axes = self.space.axes
        for count in range(1, len(axes) + 1):
            for chosen in itertools.combinations(axes, count):
                for values in itertools.product(*(axis.values[1:] for axis in chosen)):
                    choice = {axis.name: value for axis, value in zip(chosen, values, strict=True)}
                    if (found := self.candidate(choice)) is not None:
                        yield found


@dataclass
class RandomSearcher(Searcher):
    """Proposes random candidates."""

    def propose(self) -> Candidate | None:
        return self.draw()
