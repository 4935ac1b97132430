"""Refits the cost function from trials: figures of the machine with which it would have chosen faster schedules.

The cost function chooses schedules by the figures of the machine. A trial tells what it should have chosen. The refit
searches for figures near the known ones with which the candidate that is predicted to be the fastest is the fastest in
fact, for as many kernels as possible. Compiles with these figures have better default schedules, also of kernels that
were never tuned: a part of the kernels is left out of the fit, and shows what others gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..lowering.linalg_to_vector.spaces.space import Parameters, SearchSpace
from ..machines.machine import Machine
from ..machines.names import with_figures
from ..runtime.cache.cache import default_cache
from ..runtime.devices import figures
from ..support.wording import quantity
from .choices import latest_trials
from .database import OK, Trial
from .errors import TuningError

FIELDS = (
    *("l1_bytes", "l2_bytes", "l3_bytes", "l1_rate", "l2_rate", "l3_rate", "memory_rate", "wide_clock", "clock"),
    *("l2_latency", "l3_latency", "memory_latency", "handover_ns", "wake_ns", "call_ns", "loads", "stores"),
)
"""The figures that are fitted. Others are properties of the instructions."""
_INTEGERS = ("loads", "stores")

_FACTORS = (0.25, 0.5, 0.71, 1.41, 2.0, 4.0)
"""Factors of a figure that are tried at once: half powers of 2, as the cost function is rough."""
_SWEEPS = 3
"""Maximum number of passes over all figures: the third one rarely changes any."""

_SHARPNESS = 0.02
"""Relative difference of predicted times that the choice between two schedules takes seriously."""

_LEAST = 4
"""Fewest trials of a kernel."""
_LEAST_KERNELS = 4
"""Fewest kernels: half of them are left out of a fit."""
_WORTH_IT = 1e-3
"""Least improvement of the mean logarithm of gains by a figure, so that figures without effect stay as they are."""


@dataclass(frozen=True)
class RefitKernel:
    """A kernel with trials.

    Attributes:
        name: its name.
        space: its search space.
        schedules: the parameters of its candidates, those of the default schedule first.
        gains: the logarithms of their gains; 0 for the default one.
        weight: its time with the default schedule.
    """

    name: str
    space: SearchSpace
    schedules: Sequence[Parameters]
    gains: np.ndarray
    weight: float

    def predicted(self, machine: Machine) -> np.ndarray:
        """Returns the logarithms of the times of all candidates by the cost function; infinite if it knows none."""
        space = self.space.on(machine)
        return np.array([math.log(space.predicted(item) or math.inf) for item in self.schedules])

    def chosen(self, machine: Machine) -> float:
        """Returns the logarithm of the gain of the candidate that the cost function chooses."""
        return float(self.gains[int(np.argmin(self.predicted(machine)))])

    def expected(self, machine: Machine) -> float:
        """Returns the same if candidates that are nearly equally fast for the cost function are chosen at random."""
        times = self.predicted(machine)
        shares = np.exp((times.min() - times) / _SHARPNESS)
        return float(shares @ self.gains / shares.sum())


@dataclass(frozen=True)
class Refit:
    """The outcome of a refit; gaps are geometric means of the gain of the best schedule over the chosen one.

    Attributes:
        figures: the figures that differ, by field.
        before: gap of what the cost function chooses with the known figures.
        after: gap with the fitted ones.
        left_out: gap with figures that were fitted to other kernels.
        kernels: number of kernels.
        trials: number of their trials.
    """

    figures: Mapping[str, float]
    before: float
    after: float
    left_out: float
    kernels: int
    trials: int

    @property
    def is_better(self) -> bool:
        """True if kernels that were left out gain as well."""
        return len(self.figures) > 0 and self.left_out < self.before


def refit_kernels(spaces: Mapping[str, SearchSpace], trials: Iterable[Trial]) -> list[RefitKernel]:
    """Returns the kernels with enough trials of which the cost function knows the time.

    Args:
        spaces: the search spaces of kernels, by name.
        trials: trials on one machine.
    """
    groups: dict[str, list[Trial]] = {}
    for trial in latest_trials(trials):
        if trial.status == OK and trial.gain and trial.schedule and trial.kernel in spaces:
            groups.setdefault(trial.kernel, []).append(trial)
    found = []
    for name, items in groups.items():
        space = spaces[name]
        if len(items) < _LEAST or space.predicted({}) is None:
            continue
        # A gain that may be luck counts as none.
        gains = [math.log(_certain(trial)) for trial in items]
        weight = float(np.median([trial.default_nanoseconds or 1.0 for trial in items]))
        schedules = [{}, *(trial.schedule for trial in items)]
        found.append(RefitKernel(name, space, schedules, np.array([0.0, *gains]), weight))
    return found


def _certain(trial: Trial) -> float:
    """The gain of a trial, the nearest one to 1 in its confidence interval."""
    low, high = trial.low or 0.0, trial.high or math.inf
    return min(max(1.0, low), high)


def refit(kernels: Sequence[RefitKernel]) -> Refit:
    """Fits the figures of the machine to trials.

    Raises:
        TuningError: too few kernels have trials.
    """
    if len(kernels) < _LEAST_KERNELS:
        found = quantity(len(kernels), "kernel")
        raise TuningError(f"{found} with {_LEAST} trials or more, but a refit needs {_LEAST_KERNELS}: tune for longer")
    machine = kernels[0].space.machine
    halves = kernels[::2], kernels[1::2]
    fitted = [_fitted(machine, half) for half in halves]
    others = [(kernel, made) for half, made in zip(halves[::-1], fitted, strict=True) for kernel in half]
    whole = _fitted(machine, kernels)
    changed = {name: getattr(whole, name) for name in FIELDS if getattr(whole, name) != getattr(machine, name)}
    return Refit(
        changed,
        _gap([(kernel, machine) for kernel in kernels]),
        _gap([(kernel, whole) for kernel in kernels]),
        _gap(others),
        len(kernels),
        sum(len(kernel.schedules) - 1 for kernel in kernels),
    )


def keep_figures(made: Refit) -> bool:
    """Keeps fitted figures in the cache, beside those that were measured; returns whether there is a cache."""
    cache = default_cache()
    return figures.keep(figures.MachineFigures({**figures.kept(cache), **made.figures}), cache)


def _gap(choices: Sequence[tuple[RefitKernel, Machine]]) -> float:
    """The geometric mean of best over chosen, weighted by the times of the kernels."""
    total = sum(kernel.weight for kernel, _ in choices)
    lost = sum(kernel.weight * (kernel.gains.max() - kernel.chosen(machine)) for kernel, machine in choices)
    return math.exp(lost / total)


def _fitted(machine: Machine, kernels: Sequence[RefitKernel]) -> Machine:
    """The machine with the figures that suit some kernels best, one figure changed after another."""
    total = sum(kernel.weight for kernel in kernels)

    def score(candidate: Machine) -> float:
        return sum(kernel.weight * kernel.expected(candidate) for kernel in kernels) / total

    best = score(machine)
    for _ in range(_SWEEPS):
        before = machine
        for name in FIELDS:
            made = {_changed(machine, name, factor): None for factor in _FACTORS}
            scores = {candidate: score(candidate) for candidate in made}
            winner = max(scores, key=lambda candidate: scores[candidate])
            if scores[winner] > best + _WORTH_IT:
                machine, best = winner, scores[winner]
        if machine == before:
            break
    return machine


def _changed(machine: Machine, name: str, factor: float) -> Machine:
    value = getattr(machine, name) * factor
    return with_figures(machine, {name: max(1, round(value)) if name in _INTEGERS else value}, "fitted to trials")
