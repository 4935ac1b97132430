"""Compares two files of results, to find what became slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .record import CaseRows, Results, ResultsError, Row


@dataclass(frozen=True)
class Change:
    """One case in two files.

    Attributes:
        case: the model or kernel.
        threads: threads of a call.
        old: the older file's figure: seconds, or seconds relative to the fastest peer.
        new: the newer file's figure.
    """

    case: str
    threads: int
    old: float
    new: float

    @property
    def factor(self) -> float:
        """The new time divided by the old one."""
        return self.new / self.old

    def is_regression(self, tolerance: float) -> bool:
        """Returns whether the time has grown by more than a share."""
        return self.factor > 1 + tolerance


@dataclass(frozen=True)
class Comparison:
    """The differences between two files in the same cases.

    Attributes:
        unit: the compared quantity.
        changes: the changes, worst first.
        gone: cases for which only the older file has a figure.
    """

    unit: str
    changes: Sequence[Change]
    gone: Sequence[str]


def compare(old: Results, new: Results) -> Comparison:
    """Compares times on the same machine; on different machines, times relative to the fastest peer of each case.

    Raises:
        ResultsError: the files are of different kinds.
    """
    if old.what != new.what:
        raise ResultsError(f"one file holds {old.what}, the other {new.what}")
    is_same = old.machine.slug == new.machine.slug and old.machine.cpu == new.machine.cpu
    measure = _seconds if is_same or old.what in ("growth", "sessions") else _relative
    before, after = ({case.here.key: case for case in results.cases()} for results in (old, new))
    changes, gone = [], []
    for key, case in before.items():
        was, now = measure(case), measure(after[key]) if key in after else None
        if was is not None and now is not None:
            changes.append(Change(case.here.case, case.here.threads, was, now))
        elif was is not None:
            gone.append(f"{case.here.case} ({case.here.threads} threads)")
    unit = "seconds" if measure is _seconds else "times the fastest peer's time"
    return Comparison(unit, sorted(changes, key=lambda change: -change.factor), gone)


def _seconds(case: CaseRows) -> float | None:
    """Returns the main figure of a case in seconds."""
    row: Row = case.here
    if row.two_sessions:
        return 1 / row.two_sessions
    return row.median_seconds if row.median_seconds is not None else row.cold_seconds


def _relative(case: CaseRows) -> float | None:
    ratio = case.speedup(case.fastest)
    return None if ratio is None else 1 / ratio
