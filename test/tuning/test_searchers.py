"""Searchers propose legal candidates, none twice, and find the best of a space that they know nothing of."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from stepwell.lowering.linalg_to_vector.spaces.space import Axis, RefusedError, SearchSpace, SpaceChoice
from stepwell.machines.families import FAMILIES
from stepwell.support.errors import OptionError
from stepwell.tuning.cost_model import LearnedModel
from stepwell.tuning.database import Conditions, Trial
from stepwell.tuning.options import TuningOptions
from stepwell.tuning.searchers.evolution import EvolutionarySearcher
from stepwell.tuning.searchers.simple import ExhaustiveSearcher, RandomSearcher


@dataclass(frozen=True)
class Bowl(SearchSpace):
    """A space whose best place is a=9, b=4, and in which a sum of 13 is not legal."""

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        found = self.changed({name: value for name, value in choice.items() if value is not None})
        if sum(found.values()) == 13 and found != {"a": 9, "b": 4}:
            raise RefusedError("thirteen")
        return found

    def features(self, parameters: Mapping[str, Any]) -> dict[str, float]:
        return {name: float(value) for name, value in self.complete(parameters).items()}

    def predicted(self, parameters: Mapping[str, Any]) -> float | None:
        return None


def gain(space: SearchSpace, parameters: Mapping[str, Any]) -> float:
    whole = space.complete(parameters)
    return 2.0 / (1 + 0.02 * ((whole["a"] - 9) ** 2 + (whole["b"] - 4) ** 2))


def bowl(size: int = 16) -> Bowl:
    axes = (Axis.of("a", range(size)), Axis.of("b", range(size)))
    return Bowl(FAMILIES["zen3"], {"a": 0, "b": 0}, axes)


def trials_to_best(searcher, space, most: int, learns: bool = False) -> int:
    known = []
    for number in range(1, most + 1):
        candidate = searcher.ask()
        if candidate is None:
            return most
        found = gain(space, candidate.parameters)
        searcher.tell(candidate.parameters, found)
        if found >= 0.95 * 2.0:
            return number
        features = space.features(candidate.parameters)
        known.append(Trial("k", Conditions("", "", 1), candidate.parameters, gain=found, features=features))
        if learns:
            searcher.model = LearnedModel.fit(known)
    return most


@pytest.mark.parametrize("kind", [ExhaustiveSearcher, RandomSearcher, EvolutionarySearcher])
def test_candidates_are_legal_and_never_repeated(kind) -> None:
    space = bowl(4)
    searcher, seen = kind(space, random.Random(0)), set()
    while (candidate := searcher.ask()) is not None:
        assert candidate.key not in seen and candidate.parameters
        seen.add(candidate.key)
        searcher.tell(candidate.parameters, 1.0)
    assert len(seen) == 15 if kind is ExhaustiveSearcher else len(seen) > 10


def test_learning_needs_fewer_trials_than_chance() -> None:
    pytest.importorskip("lightgbm")
    space = bowl()
    chance = [trials_to_best(RandomSearcher(space, random.Random(seed)), space, 200) for seed in range(5)]
    learned = [
        trials_to_best(EvolutionarySearcher(space, random.Random(seed)), space, 200, learns=True) for seed in range(5)
    ]
    assert sorted(learned)[2] < 0.6 * sorted(chance)[2]


def test_a_failed_candidate_is_no_parent() -> None:
    space = bowl()
    searcher = EvolutionarySearcher(space, random.Random(0))
    candidate = searcher.ask()
    assert candidate is not None
    searcher.tell(candidate.parameters, None)
    assert max((gain, key) for key, gain in searcher.seen.items() if gain)[1] == "{}"


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="searcher is 'best', and must be one of 'auto'"):
        TuningOptions(searcher="best")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a search needs an end"):
        TuningOptions(seconds=None)
    with pytest.raises(OptionError, match="trials is 0"):
        TuningOptions(trials=0)
