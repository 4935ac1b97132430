"""Two files of results side by side: what became slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .record import Case, Results, ResultsError, Row


@dataclass(frozen=True)
class Change:
    """One case in two files.

    Attributes:
        case: the model or kernel.
        threads: of a call.
        old: in the older file; seconds, or seconds relative to the fastest peer.
        new: in the newer one.
    """

    case: str
    threads: int
    old: float
    new: float

    @property
    def factor(self) -> float:
        """How many times as long it takes now."""
        return self.new / self.old

    def is_regression(self, tolerance: float) -> bool:
        """Whether it takes longer by more than a share."""
        return self.factor > 1 + tolerance


@dataclass(frozen=True)
class Comparison:
    """What two files say of the same cases.

    Attributes:
        unit: what was compared.
        changes: the worst first.
        gone: cases that only the older file has a figure for.
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


def _seconds(case: Case) -> float | None:
    """What a file is about, as seconds."""
    row: Row = case.here
    if row.two_sessions:
        return 1 / row.two_sessions
    return row.median_seconds if row.median_seconds is not None else row.cold_seconds


def _relative(case: Case) -> float | None:
    ratio = case.speedup(case.fastest)
    return None if ratio is None else 1 / ratio
