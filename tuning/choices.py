"""The table that a compile reads, from what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..passes.infra.tuning import TunedDecision, TunedKernel, Tuning
from .database import OK, KernelRow, Trial


def tuning_of(trials: Iterable[Trial], kernels: Mapping[str, KernelRow], machine: str = "") -> Tuning:
    """Returns the table of the given trials, which must have been measured."""
    trials = list(trials)
    entries = [
        TunedKernel(
            trial.kernel,
            dict(trial.schedule),
            trial.gain or 1.0,
            trial.low or 0.0,
            trial.high or 0.0,
            trial.conditions.threads,
            kernels[trial.kernel].nodes if trial.kernel in kernels else (),
        )
        for trial in trials
        if not trial.is_graph
    ]
    return Tuning.of(entries, machine, [item for trial in trials if trial.is_graph for item in _decisions(trial)])


def _decisions(trial: Trial) -> list[TunedDecision]:
    """The decisions of a graph, whose name has the digest of the machine that they are for."""
    _, machine, _ = trial.kernel.split("_")
    gain, threads = (trial.gain or 1.0, trial.low or 0.0, trial.high or 0.0), trial.conditions.threads
    return [TunedDecision(site, value, machine, *gain, threads) for site, value in trial.schedule.items()]


def latest_trials(trials: Iterable[Trial]) -> list[Trial]:
    """Returns the last trial of each schedule: the comparison at the end of a search measures longest."""
    return list({(trial.kernel, trial.conditions, trial.key): trial for trial in trials}.values())


def best_trials(trials: Iterable[Trial]) -> list[Trial]:
    """Returns the best trial of each kernel that is certainly faster than the default."""
    found: dict[str, Trial] = {}
    for trial in latest_trials(trials):
        if trial.status != OK or not trial.low or trial.low <= 1.0:
            continue
        if trial.kernel not in found or trial.low > (found[trial.kernel].low or 0.0):
            found[trial.kernel] = trial
    return list(found.values())
