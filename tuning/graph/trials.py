"""Trials of graphs: compiles a model with other decisions in a child, and measures whole calls of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...runtime.program import Program
from ..children import TrialFailure, values_of
from ..errors import TuningError
from ..intervals import GainRange
from ..measurement import MOST_TURNS, TOLERANCE, WHOLE, KernelTimer, Measured, Race, race
from ..model import Schedules
from ..trials import TrialResults
from .model import Decided, GraphModel

_TRIAL_SECONDS = 300.0
"""Maximum seconds of a compile or of a turn, after which a candidate counts as failed: a choice."""


@dataclass
class GraphTrials:
    """Compiles and measures candidates of one graph on this machine; see `TrialRunner`.

    Attributes:
        model: the model.
        inputs: the inputs of the calls that are measured.
        threads: number of threads of a call; None for one for each core.
        turns: maximum number of turns of a candidate.
        error: maximum error of results relative to the greatest.
        longest: see `TrialRunner`.
    """

    model: GraphModel
    inputs: Sequence[np.ndarray]
    threads: int | None = None
    turns: int = MOST_TURNS
    error: float = TOLERANCE
    longest: float = 0.0

    @property
    def lanes(self) -> int:
        """See `TrialRunner`: candidates that are measured at once would disturb each other."""
        return 1

    def prepare(self) -> dict[str, float]:
        """See `TrialRunner`."""

        def profile(send: Callable[[Any], None]) -> None:
            timer = KernelTimer(self.model.default, self.inputs, self.threads)
            send(min(timer.turn(timer.calls_per_turn())[WHOLE] for _ in range(3)))

        for value in values_of(profile, _TRIAL_SECONDS):
            if isinstance(value, TrialFailure):
                raise TuningError(f"the model cannot be run with default decisions: {value.reason}")
            return {self.model.name: value, WHOLE: value}
        raise TuningError("the model gave no times with default decisions")

    def run(
        self, batches: Sequence[Schedules], best: Mapping[str, float], turns: int, tell: Callable[[str], None]
    ) -> list[TrialResults]:
        """See `TrialRunner`."""
        return [self._run(batch, best, turns, tell) for batch in batches]

    def _run(
        self, batch: Schedules, best: Mapping[str, float], turns: int, tell: Callable[[str], None]
    ) -> TrialResults:
        name, start = self.model.name, time.monotonic()
        tell("compiling and measuring a graph")
        found = self.measured(batch[name], best.get(name, 1.0), turns)
        self.longest = max(self.longest, (time.monotonic() - start) * self.turns / turns)
        return {name: found, WHOLE: found}

    def measured(self, decided: Decided, best: float, turns: int) -> Measured | TrialFailure:
        """Compiles the model with decisions, and measures it against the default one.

        Args:
            decided: the decisions.
            best: the gain that they must exceed; others need not be measured well.
            turns: maximum number of turns.
        """
        default = self.model.default

        def work(send: Callable[[Any], None]) -> None:
            candidate = self.model.program(decided)
            send(("compiled", None))
            if is_same(default, candidate):
                send(("done", _EQUAL))
                return
            running = Race([WHOLE], {WHOLE: best})
            programs = default, candidate, self.inputs, self.threads
            is_right = race(*programs, running, turns, lambda: send(("turn", None)), self.error)
            send(("done", running.results()[WHOLE] if is_right else TrialFailure(self._wrong)))

        for value in values_of(work, _TRIAL_SECONDS):
            if isinstance(value, TrialFailure):
                return value
            kind, found = value
            if kind == "done":
                return found
        return TrialFailure("gave no times")

    @property
    def _wrong(self) -> str:
        return f"wrong numbers: results differ by more than {self.error:g} of the greatest"


_EQUAL = Measured(GainRange(1.0, 1.0, 1.0, 0), 0.0, 0.0)
"""The time of a candidate whose program is the default one."""


def is_same(one: Program, other: Program) -> bool:
    """Returns whether two programs call the same kernels equally often."""
    first, second = ({row.name: row.calls for row in program.kernels} for program in (one, other))
    return first == second
