"""Trials: compiles candidates in children and measures them in the model, whatever becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..runtime.program import Program
from .children import TrialFailure, each, values_of
from .errors import TuningError
from .measurement import WHOLE, KernelTimer, Measured, Race, race
from .model import Schedules, TunableModel

# Time limits of a compile and of a measurement in seconds, beyond which a candidate counts as failed: choices.
_COMPILE_SECONDS, _RUN_SECONDS = 120.0, 300.0
_WRONG = "wrong numbers"
"""Why candidates fail whose results differ from those of the default by more than rounding."""


TrialResults = Mapping[str, Measured | TrialFailure]
"""The outcomes of candidates by kernel, and of a whole call by `WHOLE`."""


class TrialRunner(Protocol):
    """Compiles and measures candidates, here or on other machines."""

    longest: float
    """Seconds of the longest measurement of the usual number of turns so far."""

    @property
    def lanes(self) -> int:
        """Number of batches that are measured at once."""
        ...

    def prepare(self) -> dict[str, float]:
        """Compiles the default program; returns the nanoseconds of each kernel, and of a whole call by `WHOLE`.

        Raises:
            TuningError: it cannot be compiled or run.
        """
        ...

    def run(
        self, batches: Sequence[Schedules], best: Mapping[str, float], turns: int, tell: Callable[[str], None]
    ) -> list[TrialResults]:
        """Compiles and measures batches of candidates, each with one candidate of some kernels.

        Args:
            batches: the parameters of the candidates, by kernel.
            best: the gain by kernel that a candidate must exceed; others need not be measured well.
            turns: maximum number of turns.
            tell: called with what is being done.
        """
        ...


@dataclass
class Trials:
    """Compiles and measures candidates of one model on this machine.

    Attributes:
        model: the model.
        inputs: the inputs of the calls that are measured.
        threads: number of threads of a call; None for one for each core.
        processes: number of processes that compile.
        turns: maximum number of turns of a candidate.
        default: the program with default schedules; made by `prepare`.
        longest: see `TrialRunner`.
    """

    model: TunableModel
    inputs: Sequence[np.ndarray]
    threads: int | None = None
    processes: int = 2
    turns: int = 24
    default: Program | None = None
    longest: float = 0.0

    @property
    def lanes(self) -> int:
        """See `TrialRunner`: candidates that are measured at once would disturb each other."""
        return 1

    def run(
        self, batches: Sequence[Schedules], best: Mapping[str, float], turns: int, tell: Callable[[str], None]
    ) -> list[TrialResults]:
        """See `TrialRunner`."""
        return [self._run(batch, best, turns, tell) for batch in batches]

    def _run(
        self, schedules: Schedules, best: Mapping[str, float], turns: int, tell: Callable[[str], None]
    ) -> TrialResults:
        tell(f"compiling {len(schedules)}")
        failures = self.compile(schedules)
        left = {name: parameters for name, parameters in schedules.items() if name not in failures}
        if not left:
            return failures
        tell(f"measuring {len(left)}")
        start = time.monotonic()
        found = self.measure(left, best, turns)
        self.longest = max(self.longest, (time.monotonic() - start) * self.turns / turns)
        return {**failures, **found}

    def prepare(self) -> dict[str, float]:
        """See `TrialRunner`."""
        wanted = [(name, {}) for name in self.model.kernels]
        for number, result in each(wanted, lambda item: self.model.compile_kernel(*item), self.processes, 600.0):
            if isinstance(result, TrialFailure):
                name = wanted[number][0]
                raise TuningError(f"the default schedule of {name} cannot be compiled: {result.reason}")
        self.default = self.model.program({})
        default = self.default

        def profile(send: Callable[[Any], None]) -> None:
            timer = KernelTimer(default, self.inputs, self.threads)
            turns = [timer.turn(timer.calls_per_turn()) for _ in range(3)]
            send({name: min(turn[name] for turn in turns if name in turn) for name in turns[0]})

        for value in values_of(profile, _RUN_SECONDS):
            if isinstance(value, TrialFailure):
                raise TuningError(f"the model cannot be run with default schedules: {value.reason}")
            return value
        raise TuningError("the model gave no times with default schedules")

    def compile(self, schedules: Schedules) -> dict[str, TrialFailure]:
        """Compiles a candidate of each kernel into the cache; returns what failed, by kernel."""
        items = list(schedules.items())
        found = each(items, lambda item: self.model.compile_kernel(*item), self.processes, _COMPILE_SECONDS)
        return {items[number][0]: result for number, result in found if isinstance(result, TrialFailure)}

    def measure(
        self, schedules: Schedules, best: Mapping[str, float], turns: int | None = None
    ) -> dict[str, Measured | TrialFailure]:
        """Measures compiled candidates of some kernels at once, against the default program.

        If they crash, or give wrong numbers, halves of them are measured, until it is known which one does.

        Args:
            schedules: a candidate of each kernel.
            best: the gain by kernel that a candidate must exceed; others need not be measured well.
            turns: maximum number of turns.
        """
        found = self._measured(schedules, best, turns or self.turns)
        if not isinstance(found, TrialFailure):
            return {**found}
        if len(schedules) == 1:
            return dict.fromkeys(schedules, found)
        names = list(schedules)
        halves: Iterable[list[str]] = (names[: len(names) // 2], names[len(names) // 2 :])
        results: dict[str, Measured | TrialFailure] = {}
        for half in halves:
            results |= self.measure({name: schedules[name] for name in half}, best, turns)
        results.pop(WHOLE, None)
        return results

    def _measured(
        self, schedules: Schedules, best: Mapping[str, float], turns: int
    ) -> dict[str, Measured] | TrialFailure:
        default = self.default
        assert default is not None, "prepare() comes first"

        def work(send: Callable[[Any], None]) -> None:
            running = Race(list(schedules), best)
            candidate = self.model.program(schedules)
            is_right = race(default, candidate, self.inputs, self.threads, running, turns, lambda: send(("turn", None)))
            send(("done", running.results() if is_right else TrialFailure(_WRONG)))

        for value in values_of(work, _RUN_SECONDS):
            if isinstance(value, TrialFailure):
                return value
            kind, found = value
            if kind == "done":
                wanted = (WHOLE, *schedules)
                is_failure = isinstance(found, TrialFailure)
                return found if is_failure else {name: item for name, item in found.items() if name in wanted}
        return TrialFailure("gave no times")
