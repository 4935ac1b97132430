"""Experience of policies: what the trials of a database teach."""

from __future__ import annotations

from collections.abc import Iterable

from .database import OK, Trial
from .searchers.policy import Experience


def experience_of(trials: Iterable[Trial], without: str = "") -> list[Experience]:
    """Returns the experience that trials give.

    Args:
        trials: the trials.
        without: the kernel whose trials are left out.
    """
    return [
        Experience.of(
            trial.kernel,
            trial.features,
            trial.choice,
            trial.predicted,
            trial.gain if trial.status == OK else None,
        )
        for trial in trials
        if trial.features and trial.kernel != without
    ]
