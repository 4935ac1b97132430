"""The search: candidates are tried in order; the first that fails in the same way is taken, and the search continues.

Several trials may run concurrently. Their number does not change the result: the first in order is always taken.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ...support.errors import StepwellError
from .case import Case
from .child import Child, Desk, Ended, Limits
from .failure import FailureSignature, crash_message, failure

T = TypeVar("T")


class Test(Protocol):
    """Determines whether, and how, a case fails."""

    def observe(self, case: Case, note: Callable[[str], None]) -> list[FailureSignature]:
        """Returns the failures of a case, empty if it succeeds; called in a child process, which may crash."""
        ...

    def command(self, path: str, case: Case) -> str:
        """Returns a command that reproduces the failure of the case in the file `path`."""
        ...


@dataclass(frozen=True)
class Edit:
    """A candidate.

    Attributes:
        what: describes the edit; suitable as part of a file name.
        make: creates the case, None if that is not possible; called in a child process.
    """

    what: str
    make: Callable[[], Case | None]


@dataclass(frozen=True)
class ReductionStep:
    """An accepted candidate."""

    number: int
    what: str
    case: Case
    failure: FailureSignature
    seconds: float


class OutOfTime(StepwellError):
    """Raised when the search has reached its time limit."""


def no_trial(what: str, more: str) -> None:
    """Ignores a trial."""


@dataclass
class Search:
    """Tries candidates.

    Attributes:
        case: the smallest case so far.
        failure: its failure.
        test: observes candidates.
        accepts: returns whether a failure is the wanted one.
        limits: the limits of a trial.
        jobs: number of concurrent trials.
        deadline: time to end, by `time.monotonic`; None for none.
        took: called with every accepted step.
        boring: called with every case without the wanted failure.
        broken: called with every candidate whose construction raised an unexpected exception.
        progressed: called after every trial.
        strict: whether candidates must be valid by the rules of their format, and not only to Stepwell.
    """

    case: Case
    failure: FailureSignature
    test: Test
    accepts: Callable[[FailureSignature], bool]
    limits: Limits
    jobs: int = 1
    deadline: float | None = None
    took: Callable[[ReductionStep], None] = lambda step: None
    boring: Callable[[str, str], None] = no_trial
    broken: Callable[[str, str], None] = no_trial
    progressed: Callable[[Search], None] = lambda search: None
    strict: bool = True
    seen: set[str] = field(default_factory=set)
    trials: int = 0
    accepted: int = 0
    start: float = field(default_factory=time.monotonic)

    def first(self, edits: Iterable[Edit]) -> int | None:
        """Tries candidates in order and takes the first with the wanted failure; returns its index, or None."""
        waiting, running = enumerate(edits), deque[tuple[int, Edit, Child]]()
        try:
            while True:
                self._fill(waiting, running)
                if not running:
                    return None
                index, edit, child = running.popleft()
                if self._is_taken(edit, child.wait()):
                    return index
        finally:
            for _, _, child in running:
                child.cancel()

    def ask(self, work: Callable[[], T]) -> T | None:
        """Runs work that may crash in a child process; returns its result, or None."""
        ended = Child(lambda desk: work(), self.limits).wait()
        if ended.how == "error":
            self.broken("looking", ended.output)
        return ended.value

    def _fill(self, waiting: Iterator[tuple[int, Edit]], running: deque[tuple[int, Edit, Child]]) -> None:
        while len(running) < self.jobs and (following := next(waiting, None)) is not None:
            if self.deadline is not None and time.monotonic() > self.deadline:
                raise OutOfTime
            index, edit = following
            running.append((index, edit, Child(self._trial(edit), self.limits)))

    def _trial(self, edit: Edit) -> Callable[[Desk], list[FailureSignature]]:
        def work(desk: Desk) -> list[FailureSignature]:
            case = edit.make()
            if case is None or case.digest in self.seen:
                return []
            desk.keep(case)
            return self.test.observe(case, desk.note)

        return work

    def _is_taken(self, edit: Edit, ended: Ended) -> bool:
        self.trials += 1
        case: Case | None = ended.kept
        if case is None and ended.how == "error":
            self.broken(edit.what, ended.output)
        found = None if case is None else next(filter(self.accepts, failures_of(ended)), None)
        if case is not None:
            self.seen.add(case.digest)
        if case is not None and found is None:
            self.boring(case.digest, edit.what)
        if case is not None and found is not None:
            self.case, self.failure = case, found
            self.accepted += 1
            self.took(ReductionStep(self.accepted, edit.what, case, found, time.monotonic() - self.start))
        self.progressed(self)
        return found is not None


def observed(test: Test, case: Case, limits: Limits) -> list[FailureSignature]:
    """Returns the failures of a case, including crashes."""
    return failures_of(Child(lambda desk: test.observe(case, desk.note), limits).wait())


def failures_of(ended: Ended) -> list[FailureSignature]:
    """Returns the failures found by a trial, or the way it ended."""
    if ended.how == "done":
        return ended.value or []
    if ended.how == "crash":
        return [failure("crash", ended.at, crash_message(ended.signal, ended.output))]
    if ended.how == "error":
        lines = ended.output.strip().splitlines()
        return [failure("error", "internal error", lines[-1] if lines else "")]
    return [FailureSignature(ended.how, ended.at, "", "")]


def minimise(search: Search, what: str, items: Sequence[T], build: Callable[[list[T]], Callable[[], Any]]) -> list[T]:
    """Keeps as few items as possible: leaves out halves, then quarters, down to single items.

    Args:
        search: tries the candidates.
        what: name of the step.
        items: all items.
        build: returns the constructor of the case with only some of the items.

    Returns:
        The items that are left.
    """
    kept, size = list(items), max(len(items) // 2, 1)
    while kept:
        place, is_smaller = 0, False
        while place < len(kept):
            places = range(place, len(kept), size)
            found = search.first(
                Edit(f"{what}-{len(kept[:start] + kept[start + size :])}", build(kept[:start] + kept[start + size :]))
                for start in places
            )
            if found is None:
                break
            is_smaller, place = True, places[found]
            kept = kept[:place] + kept[place + size :]
        if size == 1 and not is_smaller:
            return kept
        size = max(size // 2, 1)
    return kept
