"""A search: spends its time on the kernels that a model spends its time in, and stores every trial at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..driver.caching.fingerprint import fingerprint
from ..support.cores import available_cores
from .children import TrialFailure
from .choices import best_trials, latest_trials
from .cost_model import LearnedModel
from .database import FAILED, GRAPH, OK, WRONG, Conditions, Database, KernelRow, Trial
from .experience import experience_of
from .measurement import WHOLE, Measured
from .model import RemoteModel, TunableKernel, TunableModel
from .options import TuningOptions
from .searchers.evolution import EvolutionarySearcher
from .searchers.policy import PolicySearcher
from .searchers.searcher import Candidate, Searcher
from .transfer import starting_points
from .trials import TrialResults, TrialRunner, Trials

_LEAST_SHARE = 0.002
"""Kernels below this share of a call are not tuned."""

_BEHIND = 0.25
"""Kernels whose trials are worth at least this part of the most worthwhile one's are measured together with it."""

_MOST_TOGETHER = 32
"""Maximum number of kernels that are measured in one program: a choice."""
_FINAL_SHARE = 0.25
"""Part of the time for the comparison of the best candidates at the end."""

_HOLDS = 0.98
"""Gain below which a winner is dropped that is measured together with the others."""

_FINALISTS = 3
"""Number of candidates of a kernel that are compared at the end: a choice, as each takes its turns."""
_FINAL_TURNS = 2
"""Turns of a finalist, relative to those of a trial."""


@dataclass
class KernelCourse:
    """The search of one kernel.

    Attributes:
        kernel: the kernel.
        share: its part of the time of a call, with the default schedule.
        searcher: proposes its candidates.
        trials: what was measured, in order, earlier searches included.
        is_done: whether there are no more candidates.
    """

    kernel: TunableKernel
    share: float
    searcher: Searcher
    trials: list[Trial] = field(default_factory=list)
    is_done: bool = False

    @property
    def best(self) -> Trial | None:
        """The fastest of the trials that are certainly faster than the default; None if there is none."""
        return next(iter(best_trials(self.trials)), None)

    @property
    def worth(self) -> float:
        """Value of a further trial: more for a longer kernel with fewer trials."""
        return 0.0 if self.is_done else self.share / (2 + len(self.trials))


@dataclass(frozen=True)
class SearchProgress:
    """The state of a search.

    Attributes:
        step: what is being done.
        trials: number of trials made.
        seconds: time spent.
        courses: the search of each kernel, the longest first.
        expected: gain of a whole call if every kernel has its best schedule.
    """

    step: str
    trials: int
    seconds: float
    courses: Sequence[KernelCourse]
    expected: float


@dataclass(frozen=True)
class SearchResult:
    """Outcome of a search.

    Attributes:
        winners: the trial of each kernel that is faster than the default, by the kernel's name.
        courses: the search of each kernel.
        whole: a whole call with the winners against one with default schedules; None without winners.
        conditions: the conditions under which the trials were made.
        seconds: time spent.
        trials: number of trials made by this search.
        untuned: number of kernels that take too little time to be tuned.
        is_interrupted: whether the user ended it.
    """

    winners: Mapping[str, Trial]
    courses: Sequence[KernelCourse]
    whole: Measured | None
    conditions: Conditions
    seconds: float
    trials: int
    untuned: int
    is_interrupted: bool = False


class TuningSession:
    """One search for the schedules of a model's kernels."""

    def __init__(
        self,
        model: TunableModel | RemoteModel,
        inputs: Sequence[np.ndarray],
        database: Database,
        options: TuningOptions,
        listener: Callable[[SearchProgress], None] = lambda progress: None,
        profile: Mapping[str, float] | None = None,
        trials: TrialRunner | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepares a search.

        Args:
            model: the model.
            inputs: inputs of the calls that are measured.
            database: keeps the trials, and has those of earlier searches.
            options: how to search.
            listener: called with the progress.
            profile: seconds of each kernel in real calls, by its name; None to measure them.
            trials: measures candidates; None to do so in this process.
            is_stopped: returns whether the user ended the search; the best schedules are still compared.
        """
        self._model, self._database, self._options, self._listener = model, database, options, listener
        self._start, self._made, self._profile = time.monotonic(), 0, profile
        threads = options.threads or available_cores()
        self._conditions = Conditions(database.add_machine(model.machine), fingerprint(), threads)
        if trials is None:
            assert isinstance(model, TunableModel), "a model on another machine is measured there"
            trials = Trials(model, inputs, threads, options.processes, options.turns)
        self._trials, self._is_prepared = trials, False
        self._courses: list[KernelCourse] = []
        self._is_stopped = is_stopped
        self._learned: LearnedModel | None = None
        self._others: list[Trial] = []

    def run(self) -> SearchResult:
        """Searches until the time or the trials are spent, or until Ctrl-C.

        Raises:
            TuningError: the model cannot be compiled or run with its default schedules.
        """
        is_interrupted, winners, whole = False, {}, None
        try:
            self._tell("compiling with default schedules")
            times = self._trials.prepare()
            self._is_prepared = True
            self._begin(times)
            while self._has_time(1 - _FINAL_SHARE) and self._has_time_to_compare() and self._step():
                pass
        except KeyboardInterrupt:
            is_interrupted = True
        try:
            if self._is_prepared:
                is_interrupted = is_interrupted or self._is_stopped()
                winners, whole = self._finish(is_short=is_interrupted)
        except KeyboardInterrupt:  # a second one: the last comparison is left out
            winners = {course.kernel.name: course.best for course in self._courses if course.best is not None}
        untuned, spent = len(self._model.kernels) - len(self._courses), self._seconds
        made = self._made
        return SearchResult(winners, self._courses, whole, self._conditions, spent, made, untuned, is_interrupted)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def _has_time(self, share: float) -> bool:
        limit, most = self._options.seconds, self._options.trials
        if self._is_stopped():
            return False
        return (limit is None or self._seconds < share * limit) and (most is None or self._made < most)

    def _has_time_to_compare(self) -> bool:
        """Returns whether time is left to compare candidates once more, and then all winners."""
        limit = self._options.seconds
        return limit is None or self._seconds + 2 * _FINAL_TURNS * self._trials.longest <= limit

    def _measured(
        self, schedules: Mapping[str, Mapping[str, Any]], best: Mapping[str, float], turns: int
    ) -> TrialResults:
        """Compiles and measures one batch of candidates."""
        (found,) = self._trials.run([schedules], best, turns, lambda step: None)
        return found

    def _tell(self, step: str) -> None:
        gains = [(course.share, course.best.gain if course.best else 1.0) for course in self._courses]
        left = 1 - sum(share * (1 - 1 / (gain or 1.0)) for share, gain in gains)
        self._listener(SearchProgress(step, self._made, self._seconds, self._courses, 1 / left if left > 0 else 1.0))

    def _begin(self, times: Mapping[str, float]) -> None:
        """Makes the course of each kernel, with the trials of earlier searches."""
        given = self._profile
        spent = {name: time for name, time in times.items() if name != WHOLE} if given is None else given
        whole = sum(spent.values())
        kernels = self._model.kernels.values()
        self._database.add_kernels(
            KernelRow(item.name, item.info.kind, item.info.ops, item.info.flops, item.info.bytes, item.space.default)
            for item in kernels
        )
        is_graph = any(item.info.kind == GRAPH for item in kernels)
        earlier = [trial for trial in self._database.trials(self._conditions) if trial.is_graph == is_graph]
        self._others = list(earlier)
        self._fit()
        for number, kernel in enumerate(kernels):
            share = spent.get(kernel.name, 0.0) / whole if whole else 0.0
            if share < _LEAST_SHARE:
                continue
            searcher = self._options.make_searcher(kernel.space, number, self._learned)
            if isinstance(searcher, PolicySearcher):
                searcher.before = experience_of(earlier, kernel.name)
            course = KernelCourse(kernel, share, searcher)
            for trial in earlier:
                if trial.kernel == kernel.name:
                    course.trials.append(trial)
                    searcher.tell(trial.schedule, trial.gain if trial.status == OK else None, trial.choice)
            if not course.trials and self._options.searcher not in ("random", "exhaustive"):
                searcher.seeds = starting_points(kernel.space, earlier)
            self._courses.append(course)
        self._courses.sort(key=lambda course: -course.share)
        self._tell("searching")

    def _fit(self) -> None:
        """Fits the learned model to all trials on this machine, and gives policies those of other kernels."""
        for course in self._courses:
            if isinstance(course.searcher, PolicySearcher):
                course.searcher.before = experience_of(self._others, course.kernel.name)
        if not self._options.learns:
            return
        self._learned = LearnedModel.fit(self._others) or self._learned
        for course in self._courses:
            if isinstance(course.searcher, EvolutionarySearcher):
                course.searcher.model = self._learned

    def _step(self) -> bool:
        """Makes a trial of each of the most worthwhile kernels for each lane; returns False if there are no more."""
        batches: list[dict[str, Mapping[str, Any]]] = []
        left = math.inf if self._options.trials is None else self._options.trials - self._made
        while len(batches) < self._trials.lanes and left > 0 and (candidates := self._candidates(left)):
            batches.append({name: candidate.parameters for name, candidate in candidates.items()})
            left -= len(candidates)
        if not batches:
            return any(not course.is_done for course in self._courses)
        by_name = {course.kernel.name: course for course in self._courses}
        best = {name: course.best.low or 1.0 for name, course in by_name.items() if course.best is not None}
        results = self._trials.run(batches, best, self._options.turns, self._tell)
        for schedules, found in zip(batches, results, strict=True):
            self._keep([self._trial(by_name[name], schedules[name], found.get(name, _UNSEEN)) for name in schedules])
        self._fit()
        return True

    def _candidates(self, most: float) -> dict[str, Candidate]:
        """Returns a candidate of each of the most worthwhile kernels, at most `most`."""
        candidates: dict[str, Candidate] = {}
        courses = sorted(self._courses, key=lambda course: -course.worth)
        for course in courses[: int(min(_MOST_TOGETHER, most))]:
            if course.worth <= _BEHIND * courses[0].worth:
                break
            candidate = course.searcher.ask()
            if candidate is None:
                course.is_done = True
            else:
                candidates[course.kernel.name] = candidate
        return candidates

    def _trial(self, course: KernelCourse, parameters: Mapping[str, Any], found: Measured | TrialFailure) -> Trial:
        space, searcher = course.kernel.space, type(course.searcher).__name__.removesuffix("Searcher").lower()
        usual, predicted = space.predicted({}), space.predicted(parameters)
        trial = Trial(
            course.kernel.name,
            self._conditions,
            dict(parameters),
            predicted=usual / predicted if usual and predicted else None,
            searcher="learned" if self._learned is not None and searcher == "evolutionary" else searcher,
            features=space.features(parameters),
            choice={name: value for name, value in course.searcher.choice_of(parameters).items() if value is not None},
        )
        if isinstance(found, TrialFailure):
            return replace(trial, status=WRONG if found.reason.startswith("wrong") else FAILED, reason=found.reason)
        return replace(
            trial,
            gain=found.gain.value,
            low=_finite(found.gain.low, 0.0),
            high=_finite(found.gain.high, 1e9),
            nanoseconds=found.nanoseconds,
            default_nanoseconds=found.default,
            turns=found.gain.count,
        )

    def _keep(self, trials: Sequence[Trial]) -> None:
        """Stores trials, and tells the searchers."""
        self._database.add(trials)
        self._others += trials
        by_name = {course.kernel.name: course for course in self._courses}
        for trial in trials:
            course = by_name[trial.kernel]
            course.trials.append(trial)
            course.searcher.tell(trial.schedule, trial.gain if trial.status == OK else None)
        self._made += len(trials)
        self._tell("searching")

    def _finish(self, *, is_short: bool) -> tuple[dict[str, Trial], Measured | None]:
        """Compares the best candidates of each kernel once more; returns the winners, and their effect on a call."""
        turns = self._options.turns * (1 if is_short else _FINAL_TURNS)
        winners: dict[str, Trial] = {}
        for rank in range(1 if is_short else _FINALISTS):
            by_name = {
                course.kernel.name: (course, ranked[rank])
                for course in self._courses
                if rank < len(ranked := _ranked(course.trials))
            }
            if not by_name or (rank and not self._has_time_to_compare()):
                break
            self._tell(f"comparing {len(by_name)} again")
            schedules = {name: trial.schedule for name, (_, trial) in by_name.items()}
            best = {name: trial.low or 1.0 for name, trial in winners.items()}
            found = self._measured(schedules, best, turns)
            for name, (course, _) in by_name.items():
                again = self._trial(course, schedules[name], found.get(name, _UNSEEN))
                self._database.add([again])
                course.trials.append(again)
                known = winners.get(name)
                if again.status == OK and (again.low or 0) > max(1.0, (known.low or 0.0) if known else 1.0):
                    winners[name] = again
        return self._whole(winners, turns)

    def _whole(self, winners: dict[str, Trial], turns: int) -> tuple[dict[str, Trial], Measured | None]:
        """Measures all winners together; drops those that lose there, and all of them if the call is not faster."""
        while winners:
            self._tell("measuring the whole model")
            schedules = {name: trial.schedule for name, trial in winners.items()}
            found = self._measured(schedules, {}, turns)
            whole = found.get(WHOLE)
            lost = [name for name in winners if not _holds(found.get(name))]
            winners = {name: trial for name, trial in winners.items() if name not in lost}
            if not lost and isinstance(whole, Measured):
                return (winners, whole) if whole.gain.value > 1.0 else ({}, None)
            if not lost:
                return {}, None
        return {}, None


_UNSEEN = TrialFailure("its kernel was not called")


def _holds(found: Measured | TrialFailure | None) -> bool:
    """Returns whether a winner, which was certainly faster, is not slower beside the others."""
    return isinstance(found, Measured) and found.gain.value > _HOLDS


def _ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Returns the fastest trial of each of the best schedules, the best first."""
    latest = [trial for trial in latest_trials(trials) if trial.status == OK]
    faster = [trial for trial in latest if (trial.gain or 0) > 1 and trial.schedule]
    return sorted(faster, key=lambda trial: -(trial.low or 0) - 1e-3 * (trial.gain or 0))[:_FINALISTS]


def _finite(value: float, instead: float) -> float:
    return value if math.isfinite(value) else instead
