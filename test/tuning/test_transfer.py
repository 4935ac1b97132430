"""Searches begin with what was fastest for similar kernels."""

from __future__ import annotations

import random

import pytest
from stepwell.tuning.database import Conditions, Database, Trial
from stepwell.tuning.searchers.evolution import EvolutionarySearcher
from stepwell.tuning.transfer import starting_points

from .test_searchers import bowl

PLACE = Conditions("machine", "compiler", 1)


def trial(kernel: str, choice: dict, gain: float, **features: float) -> Trial:
    features = {"a": 9.0, "b": 4.0, **features}
    schedule = {name: list(value) if isinstance(value, tuple) else value for name, value in choice.items()}
    return Trial(
        kernel, PLACE, schedule, gain=gain, low=gain - 0.05, high=gain + 0.05, features=features, choice=choice
    )


def test_the_most_similar_kernel_comes_first_and_illegal_choices_are_left_out() -> None:
    trials = [
        trial("far", {"a": 3, "b": 3}, 2.0, a=90.0),
        trial("near", {"a": 9, "b": 4}, 1.5),
        trial("slower", {"a": 2}, 0.8),
        trial("refused", {"a": 6, "b": 7}, 2.0),
        trial("other axes", {"c": 1}, 2.0),
        trial("other values", {"a": 99, "b": 4}, 2.0),
        trial("other features", {"a": 5}, 2.0, depth=1.0),
    ]
    assert starting_points(bowl(), trials) == [{"a": 9, "b": 4}, {"a": 3, "b": 3}]


def test_a_searcher_proposes_them_first() -> None:
    searcher = EvolutionarySearcher(bowl(), random.Random(0), seeds=[{"a": 6, "b": 7}, {"a": 9, "b": 4}])
    first = searcher.ask()
    assert first is not None and first.parameters == {"a": 9, "b": 4} and not searcher.seeds
    assert searcher.ask() is not None


@pytest.mark.parametrize("value", [(3, 2), 4, 0])
def test_choices_are_read_as_they_were_written(value, tmp_path) -> None:
    database = Database(tmp_path / "trials.sqlite")
    database.add([trial("kernel", {"tile": value}, 1.5)])
    assert database.trials()[0].choice == {"tile": value}
