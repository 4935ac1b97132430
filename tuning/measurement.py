"""Measurement of candidates inside their model: the default program and one with candidates run in turns.

Kernels are timed where they stand, by the recorder that profiles use, so caches and threads are as in real calls. One
run measures a candidate of every kernel at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..runtime.compiled_model import CompiledModel
from ..runtime.executable import Executable
from ..runtime.execution.recorder import CallRecorder
from ..runtime.profile.profiler import instances
from ..runtime.program import Program
from .intervals import LEAST, GainRange

WHOLE = ""
"""The name of the time of all kernels of a call together.

It is the sum of the times of the kernels: each of them finds a moment without other work on the machine sooner than a
whole call does.
"""

MOST_TURNS = 24
"""Maximum number of turns of a candidate: a choice, four times the fewest for an interval."""
# Duration of a turn in seconds, short so that both programs meet the same conditions, and limits of its calls: choices.
_TURN_SECONDS = 0.004
_LEAST_CALLS, _MOST_CALLS = 3, 40
_EQUAL = 0.02
"""Relative difference of times that is not worth more turns."""

TOLERANCE = 1e-3
"""Error of results relative to the greatest: a choice above the rounding of other orders of sums."""


@dataclass(frozen=True)
class Measured:
    """A candidate's time against the default's.

    Attributes:
        gain: the default's time divided by the candidate's, with its interval.
        nanoseconds: the candidate's time.
        default: the default's time in nanoseconds.
    """

    gain: GainRange
    nanoseconds: float
    default: float


@dataclass
class Race:
    """The turns of a set of candidates; it ends when every one has lost, or is known well enough.

    Attributes:
        best: the gain that a candidate must exceed, by the kernel's name.
        names: the kernels whose candidates take part.
    """

    names: Sequence[str]
    best: Mapping[str, float]
    times: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, default: Mapping[str, float], candidate: Mapping[str, float]) -> None:
        """Adds the times of a turn, in nanoseconds by kernel."""
        for name in default.keys() & candidate.keys():
            if default[name] > 0 and candidate[name] > 0:
                self.times[name].append((default[name], candidate[name]))

    def is_decided(self, name: str) -> bool:
        """Returns whether further turns of a candidate are useless: it has lost, or its gain is known well enough."""
        found = self._gain(name)
        if found.count < LEAST:
            return False
        return found.high < self.best.get(name, 1.0) or found.high - found.low < _EQUAL

    @property
    def is_over(self) -> bool:
        """True if no candidate needs another turn."""
        return all(map(self.is_decided, self.names))

    def results(self) -> dict[str, Measured]:
        """Returns what was measured, by the kernel's name, and of a whole call by `WHOLE`."""
        return {
            name: Measured(self._gain(name), float(np.median(candidate)), float(np.median(default)))
            for name, (default, candidate) in self._columns().items()
        }

    def _columns(self) -> dict[str, tuple[list[float], list[float]]]:
        return {name: ([a for a, _ in rows], [b for _, b in rows]) for name, rows in self.times.items()}

    def _gain(self, name: str) -> GainRange:
        rows = self.times.get(name, [])
        return GainRange.of([default for default, _ in rows], [candidate for _, candidate in rows])


class KernelTimer:
    """Times the kernels of a program in calls of it."""

    def __init__(self, program: Program, inputs: Sequence[np.ndarray], threads: int | None) -> None:
        self._recorder = CallRecorder()
        model = CompiledModel(program.inputs, program.outputs, [program])
        self._executable = Executable(model, threads, self._recorder)
        self._inputs = inputs
        self.outputs = self._call()

    def _call(self) -> list[np.ndarray]:
        results = self._executable(*self._inputs)
        return list(results) if isinstance(results, tuple | list) else [results]

    def turn(self, calls: int) -> dict[str, float]:
        """Returns the least time of each kernel, summed over its calls in the model, in some calls after one more."""
        self._call()
        found: dict[str, float] = {}
        made = 0
        while made < calls:
            self._recorder.clear()
            self._call()
            recordings = self._recorder.recordings
            if not all(item.is_whole for item in recordings):
                continue  # the next call has larger buffers
            made += 1
            times: dict[str, float] = defaultdict(float)
            for recording in recordings:
                for item in instances(recording):
                    times[item.kernel.name] += item.end - item.start
            for name, spent in times.items():
                found[name] = min(found.get(name, spent), spent)
        found[WHOLE] = sum(found.values())
        return found

    def calls_per_turn(self) -> int:
        """Returns how many calls fill a turn."""
        spent = self.turn(1)[WHOLE] / 1e9
        return max(_LEAST_CALLS, min(_MOST_CALLS, round(_TURN_SECONDS / max(spent, 1e-7))))


def race(
    default: Program,
    candidate: Program,
    inputs: Sequence[np.ndarray],
    threads: int | None,
    running: Race,
    turns: int = MOST_TURNS,
    after_turn: Callable[[], None] = lambda: None,
    tolerance: float = TOLERANCE,
) -> bool:
    """Runs two programs in turns; returns False if their results differ by more than rounding.

    Args:
        default: the program with default schedules.
        candidate: the program with candidates.
        inputs: the model's inputs.
        threads: number of threads of a call.
        running: receives the times.
        turns: maximum number of turns.
        after_turn: called after each turn.
        tolerance: maximum error of results relative to the greatest.
    """
    timers = KernelTimer(default, inputs, threads), KernelTimer(candidate, inputs, threads)
    pairs = zip(timers[1].outputs, timers[0].outputs, strict=True)
    if not all(_is_near(made, want, tolerance) for made, want in pairs):
        return False
    calls = timers[0].calls_per_turn()
    for number in range(turns):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        found = {side: timers[side].turn(calls) for side in order}
        running.add(found[0], found[1])
        after_turn()
        if running.is_over:
            break
    return True


def _is_near(made: np.ndarray, want: np.ndarray, tolerance: float) -> bool:
    """Returns whether results differ by rounding only: schedules change at most the order of sums."""
    if made.dtype.kind not in "fc":
        return bool(np.array_equal(made, want))
    scale = float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want)))
    return bool(np.allclose(made, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
