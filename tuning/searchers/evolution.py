"""Evolutionary search, led by a model of the gain: learned from trials, or the built-in cost function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...lowering.linalg_to_vector.spaces.space import SpaceChoice
from .searcher import Candidate, Searcher

_POPULATION = 96
"""Candidates among which the model chooses."""

_PARENTS = 6
"""Number of the best candidates that are mutated and crossed: a choice."""
_RANDOM_SHARE, _MUTATED_SHARE = 0.25, 0.6
"""Parts of the population that are drawn at random, and that are made by a mutation of one parent."""

_EXPLORED = 0.1
"""Share of proposals that ignore the model."""


class GainModel(Protocol):
    """Predicts the logarithm of the gain of candidates."""

    def predict(self, features: Sequence[dict[str, float]]) -> Sequence[float]:
        """Returns a prediction for each candidate."""
        ...


@dataclass
class EvolutionarySearcher(Searcher):
    """Mutates and crosses the best candidates so far, and proposes the one that a model likes best.

    Attributes:
        model: predicts gains; None to use the built-in cost function.
    """

    model: GainModel | None = None

    def propose(self) -> Candidate | None:
        population = self._population()
        if not population:
            return None
        if self.random.random() < _EXPLORED:
            return self.random.choice(population)
        scores = self._scores(population)
        return population[max(range(len(population)), key=lambda index: scores[index])]

    def _scores(self, population: Sequence[Candidate]) -> Sequence[float]:
        if self.model is not None:
            return self.model.predict([self.space.features(item.parameters) for item in population])
        usual = self.space.predicted({})
        if not usual:
            return [self.random.random() for _ in population]
        return [math.log(usual / (self.space.predicted(item.parameters) or math.inf)) for item in population]

    def _population(self) -> list[Candidate]:
        parents = self._parents()
        found: dict[str, Candidate] = {}
        for _ in range(2 * _POPULATION):
            if len(found) >= _POPULATION:
                break
            kind = self.random.random()
            if kind < _RANDOM_SHARE:
                made = self.draw()
            elif kind < _RANDOM_SHARE + _MUTATED_SHARE or len(parents) < 2:
                made = self.candidate(self._mutated(self.random.choice(parents)))
            else:
                made = self.candidate(self._crossed(*self.random.sample(parents, 2)))
            if made is not None:
                found[made.key] = made
        return list(found.values())

    def _parents(self) -> list[SpaceChoice]:
        measured = [(gain, key) for key, gain in self.seen.items() if gain is not None and key in self.choices]
        best = sorted(measured, reverse=True)[:_PARENTS]
        return [self.choices[key] for _, key in best]

    def _mutated(self, parent: SpaceChoice) -> SpaceChoice:
        """Returns a choice with other values on one or two axes, often neighbours of the parent's."""
        choice = dict(parent)
        for axis in self.random.sample(self.space.axes, min(len(self.space.axes), self.random.choice((1, 1, 2)))):
            place = axis.values.index(choice.get(axis.name))
            if self.random.random() < 0.5 and place:
                place = max(1, min(len(axis.values) - 1, place + self.random.choice((-2, -1, 1, 2))))
            else:
                place = self.random.randrange(len(axis.values))
            choice[axis.name] = axis.values[place]
        return choice

    def _crossed(self, one: SpaceChoice, other: SpaceChoice) -> SpaceChoice:
        """Returns a choice with each value from one of two parents."""
        return {axis.name: self.random.choice((one, other)).get(axis.name) for axis in self.space.axes}
