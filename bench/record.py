"""Measured figures, and their files: `bench/results/<machine>/<what>.json`."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..runtime.devices.peaks import Peaks
from ..support.errors import StepwellError
from .machine import PINNING, HostRecord
from .peers import HERE

SCHEMA = 1


class ResultsError(StepwellError):
    """Raised if a file of results cannot be used; the message says why."""


@dataclass(frozen=True)
class Row:
    """One system on one model or kernel. Figures that were not measured, or are unknown, are None.

    Attributes:
        case: the model or kernel.
        family: "model", "growth", or the kernel's family.
        shapes: shapes of the inputs.
        threads: threads of a call.
        system: "stepwell" or a peer.
        reason: the reason if there are no times; else empty.
        median_seconds: median time of a call.
        quartiles_seconds: the first and the third quartile.
        least_seconds: time of the fastest call.
        calls: number of timed calls.
        cold_seconds: time from importing the system to the first outputs, without cache, on all cores.
        cold_cpu_seconds: processor time of the same.
        start_seconds: the same in a later process, with the system's own cache.
        first_call_seconds: time of a compile and the first call of a module of torch, without cache.
        second_call_seconds: the same in a later process, with the system's own cache.
        backend_seconds: the part of the backend in the former, without Dynamo, AOTAutograd and export.
        second_backend_seconds: that in the latter.
        memory_bytes: peak growth of that process's memory up to its last call.
        artefact_bytes: size of the deployed file.
        difference: largest absolute difference from Stepwell's outputs, relative to their largest value.
        arena_bytes: memory planned for all intermediate values.
        arena_lower_bound: memory in use at the worst step.
        flops: operations of a call, by Stepwell's kernels or the kernel's definition.
        bytes: minimum number of bytes read and written by a call.
        bound_seconds: lower bound of a call's time, at the measured peaks.
        copy_seconds: time of copying the same number of bytes; kernels only.
        peak_then: rate of multiply-adds alone in operations per second, right after Stepwell's calls; kernels on one
            core.
        one_session: calls per second of one session.
        two_sessions: calls per second of two concurrent sessions together.
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
    first_call_seconds: float | None = None
    second_call_seconds: float | None = None
    backend_seconds: float | None = None
    second_backend_seconds: float | None = None
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
    def is_here(self) -> bool:
        """True if the system is Stepwell, by any of its ways."""
        return self.system.partition(".")[0] == HERE

    @property
    def key(self) -> tuple[str, str, int, str]:
        """The key by which a later measurement replaces this one."""
        shapes = sorted((name, tuple(shape)) for name, shape in self.shapes.items())
        return self.case, repr(shapes), self.threads, self.system

    def timed(self, times: Sequence[float]) -> Row:
        """Returns the row with the times of its calls."""
        first, _, third = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
        return replace(
            self,
            median_seconds=statistics.median(times),
            quartiles_seconds=(first, third),
            least_seconds=min(times),
            calls=len(times),
        )


@dataclass(frozen=True)
class CaseRows:
    """All systems on one model or kernel at one number of threads.

    Attributes:
        here: Stepwell's row.
        peers: the other systems' rows, by name.
    """

    here: Row
    peers: dict[str, Row]

    @property
    def fastest(self) -> Row | None:
        """The fastest other system; None if none has a time."""
        timed = [row for row in self.peers.values() if row.median_seconds is not None and not row.is_here]
        return min(timed, key=lambda row: row.median_seconds or 0) if timed else None

    def speedup(self, peer: Row | None) -> float | None:
        """Returns how many times faster Stepwell is than a peer."""
        if peer is None or peer.median_seconds is None or self.here.median_seconds is None:
            return None
        return peer.median_seconds / self.here.median_seconds

    @property
    def share_of_peak(self) -> float | None:
        """The work's time at the measured peaks, as a share of the measured time."""
        if self.here.bound_seconds is None or self.here.median_seconds is None:
            return None
        return self.here.bound_seconds / self.here.median_seconds

    @property
    def share_of_peak_then(self) -> float | None:
        """The rate of operations, relative to that of multiply-adds at the same clock; None for little work."""
        row = self.here
        if row.peak_then is None or row.flops is None or row.median_seconds is None:
            return None
        return row.flops / row.median_seconds / row.peak_then


@dataclass(frozen=True)
class Results:
    """One file of results.

    Attributes:
        what: "models", "torch", "kernels", "growth" or "sessions".
        machine: the machine of the measurement.
        peaks: its limits, by number of threads.
        rows: the figures.
        missing: the requested peers that are not installed, each with what to do.
        date: date of the last measurement, UTC.
    """

    what: str
    machine: HostRecord
    peaks: dict[int, Peaks]
    rows: list[Row]
    missing: dict[str, str] = field(default_factory=dict)
    date: str = ""

    def cases(self) -> list[CaseRows]:
        """Returns the rows by case, in their order."""
        groups: dict[tuple, dict[str, Row]] = {}
        for row in self.rows:
            groups.setdefault(row.key[:-1], {})[row.system] = row
        return [
            CaseRows(group[HERE], {name: row for name, row in group.items() if name != HERE})
            for group in groups.values()
            if HERE in group
        ]

    def ratios(self) -> dict[str, dict[str, list[tuple[float, str]]]]:
        """Returns how many times faster Stepwell is: by threads, by peer and over the fastest one, with the case."""
        found: dict[str, dict[str, list[tuple[float, str]]]] = {}
        for case in self.cases():
            group = found.setdefault(str(case.here.threads), {})
            for name, peer in [*case.peers.items(), ("fastest", case.fastest)]:
                ratio = case.speedup(peer)
                if ratio is not None:
                    group.setdefault(name, []).append((ratio, case.here.case))
        return found

    def speedups(self) -> dict[str, dict[str, float]]:
        """Returns how many times faster Stepwell is, as geometric means: by threads, over each peer and the fastest."""
        return {
            threads: {name: geometric_mean(ratio for ratio, _ in ratios) for name, ratios in group.items()}
            for threads, group in self.ratios().items()
        }

    def require_same(self, what: str, machine: HostRecord) -> None:
        """Checks that figures of the given kind and machine can be added to these.

        Raises:
            ResultsError: they cannot.
        """
        if (what, machine) != (self.what, self.machine):
            raise ResultsError("the older figures are of another machine, or of other versions: write to another file")

    def merged_into(self, older: Results) -> Results:
        """Returns the older results with rows replaced by these, and with these added.

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
        """Returns the figures as JSON, with the derived ratios."""
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
            ResultsError: it is not a file of results.
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
            machine=HostRecord(**record["machine"]),
            peaks={int(threads): Peaks.of(peaks) for threads, peaks in record["peaks"].items()},
            rows=[Row(**{name: entry[name] for name in names & entry.keys()}) for entry in record["rows"]],
            missing=record["missing"],
            date=record["date"],
        )


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
