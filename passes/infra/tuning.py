"""Schedules that a tuner found: the table that a compile reads, and its file format.

    {"schema": 1, "compiler": "0.1.0", "machine": "zen3",
     "kernels": [{"kernel": "kernel_1f0c...", "schedule": {"tiles": [[6]]}, "gain": 1.2, "threads": 2, ...}]}

A kernel's name is a hash of its contents and the target, so an entry serves every model with the same kernel on the
same kind of machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...support.errors import OptionError
from ...support.version import VERSION

SCHEMA = 1
"""Version of the file, raised when a reader of the former one would misread it; then it is refused."""
SUFFIX = ".tuning.json"


@dataclass(frozen=True)
class TunedKernel:
    """A kernel's best schedule.

    Attributes:
        kernel: the kernel's name.
        schedule: the parameters that replace those of the default schedule.
        gain: time with the default schedule, divided by the time with this one.
        low: lower end of the 95 % confidence interval of `gain`.
        high: its upper end.
        threads: number of threads that it was measured with.
        nodes: nodes of a model that it was measured in.
    """

    kernel: str
    schedule: Mapping[str, Any]
    gain: float
    low: float
    high: float
    threads: int
    nodes: tuple[str, ...] = ()

    @staticmethod
    def read(record: Mapping[str, Any]) -> TunedKernel:
        """Reads the record that JSON made of it.

        Raises:
            KeyError, ValueError, TypeError, AttributeError: it is not such a record.
        """
        gain, low, high = (float(record[key]) for key in ("gain", "low", "high"))
        schedule = {str(name): _checked(value) for name, value in record["schedule"].items()}
        nodes = tuple(map(str, record.get("nodes", ())))
        return TunedKernel(str(record["kernel"]), schedule, gain, low, high, int(record["threads"]), nodes)


def _checked(value: Any) -> Any:
    """Returns a parameter of a schedule: a text, an integer, or a nested list of integers."""
    if isinstance(value, list):
        return [_checked(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a parameter of a schedule")
    return value


@dataclass(frozen=True)
class Tuning:
    """Tuned kernels by name.

    Attributes:
        kernels: the entries.
        compiler: the version of the compiler that they were measured with.
        machine: the name of the machine's description.
    """

    kernels: Mapping[str, TunedKernel] = field(default_factory=dict)
    compiler: str = VERSION
    machine: str = ""

    @staticmethod
    def of(kernels: Iterable[TunedKernel], machine: str = "") -> Tuning:
        """Returns a table of the entries; if there are several for one kernel, the one with the greatest gain."""
        found: dict[str, TunedKernel] = {}
        for item in kernels:
            if item.kernel not in found or item.gain > found[item.kernel].gain:
                found[item.kernel] = item
        return Tuning(found, machine=machine)

    def schedule_of(self, kernel: str) -> Mapping[str, Any] | None:
        """Returns the parameters for a kernel; None if it is not tuned, or for another version of the compiler."""
        found = self.kernels.get(kernel) if self.compiler == VERSION else None
        return None if found is None else found.schedule

    @cached_property
    def digest(self) -> str:
        """A digest of the schedules, the only fields that affect the generated code."""
        chosen = {name: item.schedule for name, item in sorted(self.kernels.items())}
        return hashlib.sha256(json.dumps([self.compiler, chosen], sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return self.digest

    def text(self) -> str:
        """Returns the contents of the file."""
        kernels = [asdict(item) for item in self.kernels.values()]
        record = {"schema": SCHEMA, "compiler": self.compiler, "machine": self.machine, "kernels": kernels}
        return json.dumps(record, indent=1)


def read_tuning(path: str | os.PathLike[str]) -> Tuning:
    """Reads a file that `stepwell-tune` wrote, or all such files (`*.tuning.json`) of a folder.

    Raises:
        OptionError: there is no such file, or its contents are of another kind.
    """
    place = Path(path)
    files = sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else [place]
    if not files:
        raise OptionError(f"tuning: the folder {place} has no file *{SUFFIX}; stepwell-tune writes one")
    tables = [_read(file) for file in files]
    usable = [table for table in tables if table.compiler == VERSION] or tables[:1]
    entries = [item for table in usable for item in table.kernels.values()]
    merged = Tuning.of(entries, usable[0].machine)
    return Tuning(merged.kernels, usable[0].compiler, usable[0].machine)


def _read(path: Path) -> Tuning:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA:
            raise ValueError(f"it has schema {record['schema']}, not {SCHEMA}")
        entries = map(TunedKernel.read, record["kernels"])
        table = Tuning.of(entries, str(record["machine"]))
        return Tuning(table.kernels, str(record["compiler"]), table.machine)
    except OSError as error:
        raise OptionError(f"tuning: {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"tuning: {path} is not a file of tuned kernels by stepwell-tune: {error}") from error
