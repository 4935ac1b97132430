"""What was measured, and the files that it is kept in: `bench/results/<machine>/<what>.json`."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..runtime.errors import StepwellError
from ..runtime.peaks import Peaks
from .machine import PINNING, Machine
from .peers import HERE

SCHEMA = 1


class ResultsError(StepwellError):
    """A file of results cannot be used; the message says why."""


@dataclass(frozen=True)
class Row:
    """One system on one model or kernel. What was not measured, or is not known, is None.

    Attributes:
        case: the model or kernel.
        family: "model", "growth", or the kernel's family.
        shapes: of the inputs.
        threads: of a call.
        system: "stepwell" or a peer.
        reason: why there are no times; empty where there are.
        median_seconds: of a call.
        quartiles_seconds: the first and the third.
        least_seconds: of the fastest call.
        calls: how many were timed.
        cold_seconds: from importing the system to the first outputs, nothing cached, on all cores.
        cold_cpu_seconds: the processor time of that.
        start_seconds: the same in a later process, which finds what the system keeps in its cache.
        memory_bytes: by how much that process grew at most until its last call was done.
        artefact_bytes: the size of the file that is deployed.
        difference: the largest absolute difference to Stepwell's outputs, relative to their largest value.
        arena_bytes: what is planned for all intermediate values together.
        arena_lower_bound: what is alive at the worst step.
        flops: of a call, by Stepwell's kernels or the kernel's definition.
        bytes: read and written by a call at least.
        bound_seconds: how long that takes at least, at the measured peaks.
        copy_seconds: how long copying takes that moves as many bytes; kernels only.
        peak_then: operations per second of multiply-adds alone, right after Stepwell's calls; kernels on one core only.
        one_session: calls per second of one session.
        two_sessions: calls per second of two sessions at once, together.
    """

    case: str
    family: str
    shapes: Mapping[str, Sequence[int]]
    threads: int
    system: str
    reason: str = ""
    median_seconds: float | None = None
    quartiles_seconds: Sequence[float] | None = None
    least_seconds: float | None = None
    calls: int = 0
    cold_seconds: float | None = None
    cold_cpu_seconds: float | None = None
    start_seconds: float | None = None
    memory_bytes: int | None = None
    artefact_bytes: int | None = None
    difference: float | None = None
    arena_bytes: int | None = None
    arena_lower_bound: int | None = None
    flops: float | None = None
    bytes: float | None = None
    bound_seconds: float | None = None
    copy_seconds: float | None = None
    peak_then: float | None = None
    one_session: float | None = None
    two_sessions: float | None = None

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What a later measurement of the same is told by."""
        shapes = sorted((name, tuple(shape)) for name, shape in self.shapes.items())
        return self.case, repr(shapes), self.threads, self.system

    def timed(self, times: Sequence[float]) -> Row:
        """The row with the times of its calls."""
        first, _, third = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
        return replace(
            self,
            median_seconds=statistics.median(times),
            quartiles_seconds=(first, third),
            least_seconds=min(times),
            calls=len(times),
        )


@dataclass(frozen=True)
class Case:
    """All systems on one model or kernel at one number of threads.

    Attributes:
        here: Stepwell's row.
        peers: the other systems', by name.
    """

    here: Row
    peers: dict[str, Row]

    @property
    def fastest(self) -> Row | None:
        """The fastest other system; None where none has a time."""
        timed = [row for row in self.peers.values() if row.median_seconds is not None]
        return min(timed, key=lambda row: row.median_seconds or 0) if timed else None

    def speedup(self, peer: Row | None) -> float | None:
        """How many times faster Stepwell is than a peer."""
        if peer is None or peer.median_seconds is None or self.here.median_seconds is None:
            return None
        return peer.median_seconds / self.here.median_seconds

    @property
    def share_of_peak(self) -> float | None:
        """What part of the time the work takes at the measured peaks."""
        if self.here.bound_seconds is None or self.here.median_seconds is None:
            return None
        return self.here.bound_seconds / self.here.median_seconds

    @property
    def share_of_peak_then(self) -> float | None:
        """The operations per second by what the core could have done at the clock that it had; None for little work."""
        row = self.here
        if row.peak_then is None or row.flops is None or row.median_seconds is None:
            return None
        return row.flops / row.median_seconds / row.peak_then


@dataclass(frozen=True)
class Results:
    """One file.

    Attributes:
        what: "models", "kernels", "growth" or "sessions".
        machine: where it was measured.
        peaks: its limits, by number of threads.
        rows: the figures.
        missing: the peers that were asked for and are not installed, each with what to do.
        date: of the last measurement, UTC.
    """

    what: str
    machine: Machine
    peaks: dict[int, Peaks]
    rows: list[Row]
    missing: dict[str, str] = field(default_factory=dict)
    date: str = ""

    def cases(self) -> list[Case]:
        """The rows by case, in their order."""
        groups: dict[tuple, dict[str, Row]] = {}
        for row in self.rows:
            groups.setdefault(row.key[:-1], {})[row.system] = row
        return [
            Case(group[HERE], {name: row for name, row in group.items() if name != HERE})
            for group in groups.values()
            if HERE in group
        ]

    def speedups(self) -> dict[str, dict[str, float]]:
        """How many times faster Stepwell is, as geometric means: by threads, over each peer and the fastest."""
        found: dict[str, dict[str, list[float]]] = {}
        for case in self.cases():
            group = found.setdefault(str(case.here.threads), {})
            for name, peer in [*case.peers.items(), ("fastest", case.fastest)]:
                ratio = case.speedup(peer)
                if ratio is not None:
                    group.setdefault(name, []).append(ratio)
        return {
            threads: {name: geometric_mean(ratios) for name, ratios in group.items()}
            for threads, group in found.items()
        }

    def require_same(self, what: str, machine: Machine) -> None:
        """Sees that figures of the same kind and machine can stand beside these.

        Raises:
            ResultsError: they cannot.
        """
        if (what, machine) != (self.what, self.machine):
            raise ResultsError("the older figures are of another machine, or of other versions: write to another file")

    def merged_into(self, older: Results) -> Results:
        """These rows in place of older ones of the same, and the older rest.

        Raises:
            ResultsError: the older ones are of another machine, or of other versions.
        """
        older.require_same(self.what, self.machine)
        fresh = {row.key: row for row in self.rows}
        rows = [fresh.pop(row.key, row) for row in older.rows] + list(fresh.values())
        peaks = {
            threads: self.peaks[threads].better(older.peaks[threads]) if threads in older.peaks else self.peaks[threads]
            for threads in self.peaks
        }
        return replace(self, rows=rows, peaks={**older.peaks, **peaks}, missing={**older.missing, **self.missing})

    def text(self) -> str:
        """The figures as JSON, with the ratios that follow from them."""
        cases = {case.here.key[:-1]: case for case in self.cases()}
        rows = []
        for row in self.rows:
            case = cases.get(row.key[:-1])
            ratio = case.speedup(case.peers.get(row.system)) if case is not None else None
            rows.append(asdict(row) | ({} if ratio is None else {"speedup": ratio}))
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        record = {"schema": SCHEMA, **asdict(self), "date": now, "pinning": PINNING}
        record |= {"speedups": self.speedups(), "rows": rows}
        return json.dumps(record, indent=1, allow_nan=False) + "\n"

    @staticmethod
    def read(path: Path) -> Results:
        """Reads a file.

        Raises:
            OSError: it cannot be read.
            ResultsError: it is no such file.
        """
        text = path.read_text(encoding="utf-8")
        try:
            return Results._of(json.loads(text))
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"{path}: not a file of results that this version reads ({error!r})") from error

    @staticmethod
    def _of(record: dict[str, Any]) -> Results:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']}")
        names = {item.name for item in fields(Row)}
        return Results(
            what=record["what"],
            machine=Machine(**record["machine"]),
            peaks={int(threads): Peaks.of(peaks) for threads, peaks in record["peaks"].items()},
            rows=[Row(**{name: entry[name] for name in names & entry.keys()}) for entry in record["rows"]],
            missing=record["missing"],
            date=record["date"],
        )


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
