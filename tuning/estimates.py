"""Trials for machines that are not here: the cost function's times, of schedules that the compiler can emit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..passes.infra.base import PassError
from ..support.errors import StepwellError
from .children import TrialFailure
from .errors import TuningError
from .intervals import GainRange
from .measurement import WHOLE, Measured
from .model import Schedules, TunableModel
from .trials import TrialResults

_NOT_COVERED = "the cost function does not cover it"


@dataclass
class EstimatedTrials:
    """Estimates the times of candidates; those that would be the best so far are compiled, too.

    Times are in the unit of the cost function: cycles of a GPU. A trial has no turns.

    Attributes:
        model: the model.
        longest: see `TrialRunner`; estimates take no time.
    """

    model: TunableModel
    longest: float = 0.0

    @property
    def lanes(self) -> int:
        """See `TrialRunner`."""
        return 1

    def prepare(self) -> dict[str, float]:
        """See `TrialRunner`."""
        try:
            self.model.program({})
        except (StepwellError, PassError) as error:
            raise TuningError(f"the default schedules cannot be compiled: {error}") from error
        times = {name: self._time(name, {}) for name in self.model.kernels}
        known = {name: time for name, time in times.items() if time is not None}
        return {**known, WHOLE: sum(known.values())}

    def run(
        self, batches: Sequence[Schedules], best: Mapping[str, float], turns: int, tell: Callable[[str], None]
    ) -> list[TrialResults]:
        """See `TrialRunner`."""
        del turns
        return [self._run(batch, best, tell) for batch in batches]

    def _run(self, schedules: Schedules, best: Mapping[str, float], tell: Callable[[str], None]) -> TrialResults:
        found: dict[str, Measured | TrialFailure] = {}
        spent = {name: self._time(name, {}) or 0.0 for name in self.model.kernels}
        usual = sum(spent.values())
        for name, parameters in schedules.items():
            before, after = self._time(name, {}), self._time(name, parameters)
            if before is None or after is None:
                found[name] = TrialFailure(_NOT_COVERED)
                continue
            gain = before / after
            if gain > best.get(name, 1.0):
                tell(f"compiling {name}")
                failure = self._failure(name, schedules)
                if failure is not None:
                    found[name] = failure
                    continue
            found[name] = Measured(GainRange(gain, gain, gain, 0), after, before)
            spent[name] = after
        total = sum(spent.values())
        gain = usual / total if total else 1.0
        return {**found, WHOLE: Measured(GainRange(gain, gain, gain, 0), total, usual)}

    def _failure(self, name: str, schedules: Schedules) -> TrialFailure | None:
        try:
            self.model.program({name: schedules[name]})
        except (StepwellError, PassError) as error:
            return TrialFailure(str(error))
        return None

    def _time(self, name: str, parameters: Mapping[str, object]) -> float | None:
        return self.model.kernels[name].space.predicted(parameters)
