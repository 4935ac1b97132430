"""The database of trials: sqlite, with any number of processes that write at once.

A trial is one measurement of a schedule of a kernel. Every trial is stored as soon as it is known, so that nothing is
lost if the process ends.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from ..runtime.cache.cache import default_folder
from .errors import TuningError

SCHEMA = 2
"""Version of the tables, raised when another version of Stepwell could not use them."""
OK, FAILED, WRONG = "ok", "failed", "wrong"
"""Outcomes of a trial: it was measured, it could not be compiled or run, or its numbers were wrong."""

GRAPH = "graph"
"""The class of a whole graph among the kernels, and the beginning of its name."""

_BUSY_SECONDS = 60.0
"""Time that a writer waits for others in seconds: a choice far above the milliseconds of a transaction."""

_TABLES = """
CREATE TABLE IF NOT EXISTS kernels (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, nodes TEXT NOT NULL, flops INTEGER NOT NULL, bytes INTEGER NOT NULL,
    defaults TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS machines (digest TEXT PRIMARY KEY, description TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS trials (
    id TEXT PRIMARY KEY, kernel TEXT NOT NULL, machine TEXT NOT NULL, compiler TEXT NOT NULL, threads INTEGER NOT NULL,
    schedule TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL, gain REAL, low REAL, high REAL,
    nanoseconds REAL, default_nanoseconds REAL, predicted REAL, turns INTEGER NOT NULL, searcher TEXT NOT NULL,
    features TEXT NOT NULL, choice TEXT NOT NULL, made REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS trials_by_kernel ON trials (kernel, machine, compiler, threads);
"""


@dataclass(frozen=True)
class Conditions:
    """Conditions under which trials can be compared: one machine, one compiler, one number of threads.

    Attributes:
        machine: digest of the machine's description.
        compiler: fingerprint of the compiler.
        threads: number of threads of a call.
    """

    machine: str
    compiler: str
    threads: int


@dataclass(frozen=True)
class Trial:
    """A measurement of a schedule.

    Attributes:
        kernel: the kernel's name.
        conditions: the conditions under which it was made.
        schedule: the parameters that differ from the default schedule; of a graph, the decisions by site.
        status: one of `OK`, `FAILED`, `WRONG`.
        reason: why it failed; "" if it did not.
        gain: the default's time divided by this schedule's.
        low: lower end of the confidence interval of `gain`.
        high: its upper end.
        nanoseconds: time of all the kernel's calls in a call of the model.
        default_nanoseconds: the same with the default schedule, in the same turns.
        predicted: the gain that the cost function predicted; None if it knows nothing.
        turns: number of turns.
        searcher: the searcher that proposed it.
        features: what a learned model predicts its gain by.
        choice: the values by axis of the search space, for the search of similar kernels.
        made: time of the trial, in seconds since 1970.
    """

    kernel: str
    conditions: Conditions
    schedule: Mapping[str, Any]
    status: str = OK
    reason: str = ""
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    nanoseconds: float | None = None
    default_nanoseconds: float | None = None
    predicted: float | None = None
    turns: int = 0
    searcher: str = ""
    features: Mapping[str, float] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    made: float = field(default_factory=time.time)

    @property
    def is_graph(self) -> bool:
        """True if the schedule consists of decisions on a whole graph."""
        return self.kernel.startswith(f"{GRAPH}_")

    @property
    def is_estimated(self) -> bool:
        """True if the gain is the cost function's, not one of turns on the machine."""
        return self.status == OK and not self.turns

    @property
    def key(self) -> str:
        """The schedule as text, the same for equal ones."""
        return json.dumps(self.schedule, sort_keys=True)

    @property
    def id(self) -> str:
        """The identity of the trial, the same in all databases that have it."""
        parts = [self.kernel, *map(str, vars(self.conditions).values()), self.key, repr(self.made)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class KernelRow:
    """A kernel that was tuned: its class, nodes of a model that it computes, its work and its default schedule."""

    name: str
    kind: str
    nodes: tuple[str, ...]
    flops: int
    bytes: int
    defaults: Mapping[str, Any]


def default_path() -> Path:
    """Returns the database that tools use without `--database`: in the folder of the cache."""
    return default_folder() / "tuning.sqlite"


class Database:
    """A database of trials; several processes may read and write it at the same time."""

    def __init__(self, path: Path | str, *, must_exist: bool = False) -> None:
        """Opens a database.

        Args:
            path: the file, which is created with its folder if it is missing.
            must_exist: whether a missing file is an error.

        Raises:
            TuningError: it cannot be opened, or is no database of trials.
        """
        self.path = Path(path)
        if must_exist and not self.path.exists():
            raise TuningError(f"there is no database {self.path}; stepwell-tune MODEL makes one")
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            # A crash of the process loses nothing; readers do not wait for writers.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA):
                raise TuningError(
                    f"{self.path} has schema {version}, not {SCHEMA}: another version of Stepwell made it"
                )
            with self._transaction():
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise TuningError(f"{self.path}: {error}; name another file with --database") from error
        except OSError as error:
            raise TuningError(f"{self.path}: {error.strerror}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()

    def add_machine(self, description: str) -> str:
        """Stores the description of a machine; returns its digest."""
        digest = hashlib.sha256(description.encode()).hexdigest()[:16]
        with self._errors():
            self._connection.execute("INSERT OR IGNORE INTO machines VALUES (?, ?)", (digest, description))
        return digest

    def add_kernels(self, kernels: Iterable[KernelRow]) -> None:
        """Stores kernels; those that are there stay as they are."""
        rows = [
            (item.name, item.kind, json.dumps(item.nodes), item.flops, item.bytes, json.dumps(dict(item.defaults)))
            for item in kernels
        ]
        with self._errors(), self._transaction():
            self._connection.executemany("INSERT OR IGNORE INTO kernels VALUES (?, ?, ?, ?, ?, ?)", rows)

    def add(self, trials: Iterable[Trial]) -> None:
        """Stores trials."""
        with self._errors(), self._transaction():
            self._connection.executemany(
                f"INSERT OR IGNORE INTO trials VALUES ({', '.join('?' * 19)})", [_row_of(trial) for trial in trials]
            )

    def trials(self, conditions: Conditions | None = None, kernel: str | None = None) -> list[Trial]:
        """Returns trials in the order of time: all, or those under some conditions, or of a kernel."""
        tests: list[str] = []
        values: list[str | int] = []
        if conditions is not None:
            tests += ["machine = ?", "compiler = ?", "threads = ?"]
            values += astuple(conditions)
        if kernel is not None:
            tests.append("kernel = ?")
            values.append(kernel)
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        with self._errors():
            rows = self._connection.execute(f"SELECT * FROM trials{where} ORDER BY made, id", values).fetchall()
        return [_trial_of(row) for row in rows]

    def kernels(self) -> dict[str, KernelRow]:
        """Returns the kernels by name."""
        with self._errors():
            rows = self._connection.execute("SELECT * FROM kernels ORDER BY name").fetchall()
        return {
            name: KernelRow(name, kind, tuple(json.loads(nodes)), flops, size, json.loads(defaults))
            for name, kind, nodes, flops, size, defaults in rows
        }

    def machines(self) -> dict[str, str]:
        """Returns the descriptions of machines by digest."""
        with self._errors():
            return dict(self._connection.execute("SELECT * FROM machines").fetchall())

    def merge(self, other: Database) -> int:
        """Copies what another database has and this one lacks; returns the number of new trials."""
        before = self.count()
        with self._errors(), self._transaction():
            self._connection.executemany("INSERT OR IGNORE INTO machines VALUES (?, ?)", other.machines().items())
        self.add_kernels(other.kernels().values())
        self.add(other.trials())
        return self.count() - before

    def count(self) -> int:
        """Returns the number of trials."""
        with self._errors():
            return int(self._connection.execute("SELECT count(*) FROM trials").fetchone()[0])

    def prune(self, compilers: Sequence[str]) -> int:
        """Deletes the trials of compilers other than the given ones; returns their number."""
        marks = ", ".join("?" * len(compilers))
        with self._errors():
            with self._transaction():
                found = self._connection.execute(f"DELETE FROM trials WHERE compiler NOT IN ({marks})", list(compilers))
                self._connection.execute("DELETE FROM kernels WHERE name NOT IN (SELECT kernel FROM trials)")
            self._connection.execute("VACUUM")
        return found.rowcount

    def check(self) -> str:
        """Returns "ok", or what sqlite finds damaged."""
        with self._errors():
            return str(self._connection.execute("PRAGMA integrity_check").fetchone()[0])


def _row_of(trial: Trial) -> tuple[Any, ...]:
    numbers = (trial.gain, trial.low, trial.high, trial.nanoseconds, trial.default_nanoseconds, trial.predicted)
    return (
        *(trial.id, trial.kernel, *astuple(trial.conditions), trial.key),
        *(trial.status, trial.reason, *numbers, trial.turns, trial.searcher),
        *(json.dumps(dict(trial.features)), json.dumps(dict(trial.choice)), trial.made),
    )


def _trial_of(row: Sequence[Any]) -> Trial:
    _, kernel, machine, compiler, threads, schedule, status, reason, *numbers = row
    gain, low, high, nanoseconds, usual, predicted, turns, searcher, features, choice, made = numbers
    return Trial(
        kernel,
        Conditions(machine, compiler, threads),
        json.loads(schedule),
        status,
        reason,
        gain=gain,
        low=low,
        high=high,
        nanoseconds=nanoseconds,
        default_nanoseconds=usual,
        predicted=predicted,
        turns=turns,
        searcher=searcher,
        features=json.loads(features),
        choice={name: _value(value) for name, value in json.loads(choice).items()},
        made=made,
    )


def _value(value: Any) -> Any:
    """Returns a value of an axis, whose tuples are lists in JSON."""
    return tuple(value) if isinstance(value, list) else value
