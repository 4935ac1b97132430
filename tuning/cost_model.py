"""A learned model of the gain of schedules: gradient-boosted trees on the trials of all kernels on one machine."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..support.packages import require_package
from .database import OK, Trial
from .searchers.searcher import FAILED_GAIN

_LEAST_TRIALS = 12
"""Fewest trials that a model is fitted to; before, the built-in cost function leads the search."""

_ROUNDS = 80
"""Number of trees: a choice near the 100 of LightGBM, for few trials."""
_PARAMETERS = {
    "objective": "l2",
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 3,
    "feature_fraction": 0.9,
    "bagging_fraction": 0.9,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    # The tuner forks, and threads would disturb what is measured.
    "num_threads": 1,
    "deterministic": True,
    "seed": 0,
    "verbosity": -1,
}


def is_installed() -> bool:
    """Returns whether the library of the learned model is there."""
    return importlib.util.find_spec("lightgbm") is not None


class LearnedModel:
    """Predicts the logarithm of the gain of a schedule from features of the kernel and the schedule."""

    def __init__(self, names: Sequence[str], booster: Any) -> None:
        self._names, self._booster = names, booster

    @staticmethod
    def fit(trials: Iterable[Trial]) -> LearnedModel | None:
        """Fits a model to trials; None if there are too few.

        Raises:
            MissingPackageError: the library is not installed.
        """
        require_package("lightgbm", "the learned searcher", "tune")
        import lightgbm  # pyright: ignore[reportMissingImports]  # an optional extra

        known = [trial for trial in trials if trial.features]
        if len(known) < _LEAST_TRIALS:
            return None
        names = sorted({name for trial in known for name in trial.features})
        rows = _matrix(names, [trial.features for trial in known])
        gains = np.array([_target(trial) for trial in known])
        data = lightgbm.Dataset(rows, gains, feature_name=[f"f{index}" for index in range(len(names))])
        return LearnedModel(names, lightgbm.train(_PARAMETERS, data, _ROUNDS))

    def predict(self, features: Sequence[Mapping[str, float]]) -> Sequence[float]:
        """Returns the predicted logarithm of the gain of each candidate."""
        return list(self._booster.predict(_matrix(self._names, features)))


def _target(trial: Trial) -> float:
    gain = trial.gain if trial.status == OK and trial.gain else FAILED_GAIN
    return max(math.log(gain), -1.5)  # how slow a bad candidate is does not matter


def _matrix(names: Sequence[str], features: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Returns a row for each candidate; features of other kinds of kernels are missing (NaN)."""
    return np.array([[item.get(name, math.nan) for name in names] for item in features], np.float64)
