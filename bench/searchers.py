"""Trials that searchers need to find a good schedule: replayed from a database, against random search.

All searchers choose among the same schedules of a kernel, whose gains were measured before. So the comparison needs no
machine time, has no luck in measurements, and can be repeated. Random search has a closed form; the learned model
begins with the trials of all other kernels, as on a kernel that it has never seen.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..tuning.choices import latest_trials
from ..tuning.cost_model import LearnedModel
from ..tuning.database import OK, Trial

FEWEST = 16
"""Fewest measured schedules of a kernel that is compared."""

_GOOD = 0.95
_NEW = 4
"""Trials after which the learned model is fitted anew."""

SEARCHERS = ("random", "cost function", "learned")


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
            "cost function": _by_cost(pool, good),
            "learned": float(_learned(pool, good, others)),
        }
        found.append(SearchReplay(name, len(pool), best, counts))
    return found


def medians(replays: Sequence[SearchReplay]) -> dict[str, float]:
    """Returns the median number of trials over kernels, by searcher."""
    return {name: statistics.median(item.trials[name] for item in replays) for name in SEARCHERS}


def _gain(trial: Trial) -> float:
    return trial.gain if trial.status == OK and trial.gain else 0.0


def _by_cost(pool: Sequence[Trial], good: set[str]) -> float:
    """Returns the expected number of trials in the order of the cost function; equal costs are in random order."""
    made = 0
    for cost in sorted({trial.predicted or 0.0 for trial in pool}, reverse=True):
        equal = [trial.key for trial in pool if (trial.predicted or 0.0) == cost]
        hits = len(good.intersection(equal))
        if hits:
            return made + (len(equal) + 1) / (hits + 1)
        made += len(equal)
    return float(made)


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
