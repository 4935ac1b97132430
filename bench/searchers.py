"""Trials that searchers need to find a good schedule: replayed from a database, against random search.

All searchers choose among the same schedules of a kernel, whose gains were measured before. So the comparison needs no
machine time, has no luck in measurements, and can be repeated. Random search has a closed form. The learned model and
the policy begin with the trials of all other kernels, as on a kernel that they have never seen. Exhaustive search
takes schedules with few changes first; evolution takes what the cost function likes best near the best ones so far.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tuning.choices import latest_trials
from ..tuning.cost_model import LearnedModel
from ..tuning.database import OK, Trial
from ..tuning.experience import experience_of
from ..tuning.searchers.policy import LinearPolicy, described

FEWEST = 16
"""Fewest measured schedules of a kernel that is compared."""

_GOOD = 0.95
_NEW = 4
"""Trials after which the learned model is fitted anew."""

_RUNS = 5
"""Number of runs of searchers with random numbers, whose mean counts."""

_NEAR, _EXPLORED, _PARENTS = 2, 0.25, 6
"""Axes in which a child of evolution differs at most, share of other candidates, and number of parents."""

SEARCHERS = ("random", "exhaustive", "cost function", "evolution", "learned", "policy")


@dataclass(frozen=True)
class SearchReplay:
    """Number of trials until a schedule has 95 % of the best gain.

    Attributes:
        kernel: the kernel's name.
        schedules: number of schedules to choose from.
        best: the greatest gain among them.
        trials: number of trials by searcher; for random search, the expected number.
    """

    kernel: str
    schedules: int
    best: float
    trials: dict[str, float]


def replay(trials: Sequence[Trial]) -> list[SearchReplay]:
    """Replays searches for every kernel with enough trials; the schedules of failed trials count as slow ones."""
    latest = [trial for trial in latest_trials(trials) if trial.schedule and trial.features]
    kernels: dict[str, list[Trial]] = {}
    for trial in latest:
        kernels.setdefault(trial.kernel, []).append(trial)
    found = []
    for name, pool in kernels.items():
        if len(pool) < FEWEST or not any(trial.status == OK for trial in pool):
            continue
        best = max(map(_gain, pool))
        good = {trial.key for trial in pool if _gain(trial) >= _GOOD * best}
        others = [trial for trial in latest if trial.kernel != name]
        counts = {
            "random": (len(pool) + 1) / (len(good) + 1),
            "exhaustive": _in_order(pool, good, lambda trial: -len(_values(trial))),
            "cost function": _in_order(pool, good, lambda trial: trial.predicted or 0.0),
            "evolution": statistics.mean(_evolution(pool, good, seed) for seed in range(_RUNS)),
            "learned": float(_learned(pool, good, others)),
            "policy": statistics.mean(_policy(pool, good, others, seed) for seed in range(_RUNS)),
        }
        found.append(SearchReplay(name, len(pool), best, counts))
    return found


def medians(replays: Sequence[SearchReplay]) -> dict[str, float]:
    """Returns the median number of trials over kernels, by searcher."""
    return {name: statistics.median(item.trials[name] for item in replays) for name in SEARCHERS}


def _gain(trial: Trial) -> float:
    return trial.gain if trial.status == OK and trial.gain else 0.0


def _values(trial: Trial) -> dict[str, Any]:
    return {name: value for name, value in (trial.choice or trial.schedule).items() if value is not None}


def _in_order(pool: Sequence[Trial], good: set[str], score: Callable[[Trial], float]) -> float:
    """Returns the expected number of trials in the order of a score; equal ones are in random order."""
    made = 0
    for level in sorted({score(trial) for trial in pool}, reverse=True):
        equal = [trial.key for trial in pool if score(trial) == level]
        hits = len(good.intersection(equal))
        if hits:
            return made + (len(equal) + 1) / (hits + 1)
        made += len(equal)
    return float(made)


def _evolution(pool: Sequence[Trial], good: set[str], seed: int) -> int:
    """Returns the number of trials of evolution led by the cost function."""
    source, left, parents = random.Random(seed), list(pool), [(1.0, {})]
    for number in range(1, len(pool) + 1):
        near = [trial for trial in left if any(_distance(_values(trial), values) <= _NEAR for _, values in parents)]
        population = near if near and source.random() >= _EXPLORED else left
        trial = max(population, key=lambda trial: (trial.predicted or 0.0, source.random()))
        left.remove(trial)
        if trial.key in good:
            return number
        parents = sorted([*parents, (_gain(trial), _values(trial))], key=lambda item: -item[0])[:_PARENTS]
    return len(pool)


def _distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


def _policy(pool: Sequence[Trial], good: set[str], others: Sequence[Trial], seed: int) -> int:
    """Returns the number of trials if the policy chooses each of them."""
    source, policy, left = np.random.default_rng(seed), LinearPolicy(), list(pool)
    known = experience_of(others)
    for number in range(1, len(pool) + 1):
        if number % _NEW == 1:
            policy.learn(known)
        weights = policy.drawn(source)
        trial = max(left, key=lambda item: weights.value(described(item.features, item.choice, item.predicted)))
        left.remove(trial)
        if trial.key in good:
            return number
        known += experience_of([trial])
    return len(pool)


def _learned(pool: Sequence[Trial], good: set[str], others: Sequence[Trial]) -> int:
    """Returns the number of trials if the learned model chooses each of them."""
    left, known = list(pool), list(others)
    model = LearnedModel.fit(known)
    for number in range(1, len(pool) + 1):
        index = 0
        if model is not None:
            scores = model.predict([trial.features for trial in left])
            index = max(range(len(left)), key=scores.__getitem__)
        trial = left.pop(index)
        if trial.key in good:
            return number
        known.append(trial)
        if number % _NEW == 0:
            model = LearnedModel.fit(known) or model
    return len(pool)
