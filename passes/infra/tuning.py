"""Schedules that a tuner found: the table that a compile reads, and its file format.

    {"schema": 1, "compiler": "0.1.0", "machine": "zen3",
     "kernels": [{"kernel": "kernel_1f0c...", "schedule": {"tiles": [[6]]}, "gain": 1.2, "threads": 2, ...}],
     "decisions": [{"site": "method conv 1x56x56x64xf32 ...", "value": "direct", "machine": "9b1e...", ...}]}

A kernel's name is a hash of its contents and the target, so an entry serves every model with the same kernel on the
same kind of machine. A decision serves all ops with the same attributes and types (`decisions.Site`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
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


@dataclass(frozen=True)
class TunedDecision:
    """A decision of a pass on the graph that was measured to be better than the default one.

    Attributes:
        site: the name of the site.
        value: the value.
        machine: digest of the machine's description.
        gain: time of a call with default decisions, divided by the time with all decisions that were found with it.
        low: lower end of the 95 % confidence interval of `gain`.
        high: its upper end.
        threads: number of threads that it was measured with.
    """

    site: str
    value: str
    machine: str
    gain: float
    low: float
    high: float
    threads: int

    @staticmethod
    def read(record: Mapping[str, Any]) -> TunedDecision:
        """Reads the record that JSON made of it.

        Raises:
            KeyError, ValueError, TypeError: it is not such a record.
        """
        site, value, machine = (str(record[key]) for key in ("site", "value", "machine"))
        gain, low, high = (float(record[key]) for key in ("gain", "low", "high"))
        return TunedDecision(site, value, machine, gain, low, high, int(record["threads"]))


def _checked(value: Any) -> Any:
    """Returns a parameter of a schedule: a text, an integer, or a nested list of integers."""
    if isinstance(value, list):
        return [_checked(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a parameter of a schedule")
    return value


@dataclass(frozen=True)
class Tuning:
    """Tuned kernels by name, and decisions.

    Attributes:
        kernels: the entries.
        compiler: the version of the compiler that they were measured with.
        machine: the name of the machine's description.
        decisions: decisions on the graph; of several for one site and machine, the one with the greatest gain counts.
    """

    kernels: Mapping[str, TunedKernel] = field(default_factory=dict)
    compiler: str = VERSION
    machine: str = ""
    decisions: tuple[TunedDecision, ...] = ()

    @staticmethod
    def of(kernels: Iterable[TunedKernel], machine: str = "", decisions: Iterable[TunedDecision] = ()) -> Tuning:
        """Returns a table of the entries; if there are several for one kernel, the one with the greatest gain."""
        found: dict[str, TunedKernel] = {}
        for item in kernels:
            if item.kernel not in found or item.gain > found[item.kernel].gain:
                found[item.kernel] = item
        return Tuning(found, machine=machine, decisions=tuple(decisions))

    def schedule_of(self, kernel: str) -> Mapping[str, Any] | None:
        """Returns the parameters for a kernel; None if it is not tuned, or for another version of the compiler."""
        found = self.kernels.get(kernel) if self.compiler == VERSION else None
        return None if found is None else found.schedule

    def decisions_for(self, machine: str) -> dict[str, str]:
        """Returns the decisions for a machine, by site; none if they are for another version of the compiler."""
        if self.compiler != VERSION:
            return {}
        ordered = sorted(self.decisions, key=lambda item: item.gain)
        return {item.site: item.value for item in ordered if item.machine == machine}

    @cached_property
    def digest(self) -> str:
        """A digest of the schedules and decisions, the only fields that affect the generated code."""
        chosen = {name: item.schedule for name, item in sorted(self.kernels.items())}
        ordered = sorted(self.decisions, key=lambda item: item.gain)
        decided = sorted({(item.machine, item.site): item.value for item in ordered}.items())
        return hashlib.sha256(json.dumps([self.compiler, chosen, decided], sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return self.digest

    def text(self) -> str:
        """Returns the contents of the file."""
        kernels = [asdict(item) for item in self.kernels.values()]
        record = {"schema": SCHEMA, "compiler": self.compiler, "machine": self.machine, "kernels": kernels}
        record["decisions"] = [asdict(item) for item in self.decisions]
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
    decisions = [item for table in usable for item in table.decisions]
    merged = Tuning.of(entries, usable[0].machine, decisions)
    return replace(merged, compiler=usable[0].compiler)


def _read(path: Path) -> Tuning:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA:
            raise ValueError(f"it has schema {record['schema']}, not {SCHEMA}")
        entries = map(TunedKernel.read, record["kernels"])
        decisions = map(TunedDecision.read, record.get("decisions", ()))
        return replace(Tuning.of(entries, str(record["machine"]), decisions), compiler=str(record["compiler"]))
    except OSError as error:
        raise OptionError(f"tuning: {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"tuning: {path} is not a file of tuned kernels by stepwell-tune: {error}") from error
