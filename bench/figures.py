"""The command `stepwell-bench machine`: figures of this machine beside those of its family."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..lowering.target import Target
from ..machines.machine import Machine
from ..runtime.cache.cache import default_cache
from ..runtime.devices import figures, measurement
from ..runtime.devices.figures import MachineFigures
from .report import Table

SCHEMA = 1


@dataclass(frozen=True)
class MachineComparison:
    """Measured figures beside the description of the family.

    Attributes:
        family: description of the processor's family.
        caches: sizes of caches, as the system reports them, by fields of `Machine`.
        measured: what was measured.
        is_kept: whether later compiles for `cpu` use it.
    """

    family: Machine
    caches: Mapping[str, float]
    measured: MachineFigures
    is_kept: bool

    def text(self) -> str:
        """Returns the comparison as a JSON object."""
        record = {
            "schema": SCHEMA,
            "family": self.family.name,
            "figures": {name: self._record(name) for name in self._names()},
            "disturbed": self.measured.is_disturbed,
            "kept": self.is_kept,
        }
        return json.dumps(record, indent=1) + "\n"

    def table(self) -> Table:
        """Returns a row for each number of a description."""
        rows = []
        for name in self._names():
            record = self._record(name)
            here = record["measured"]
            rows.append((name, "" if here is None else _short(here), _short(record["family"]), record["source"]))
        title = f"Figures of this machine, and of its family {self.family.name}"
        return Table(
            title,
            ("figure", "here", "family", "source of the family's"),
            rows,
            words=("figure", "source of the family's"),
        )

    @property
    def outcome(self) -> str:
        """Sentence about what became of the figures."""
        if self.is_kept:
            return "kept: code for the target cpu is made for these figures from now on"
        if self.measured.is_disturbed:
            return "not kept: other processes used the machine during the measurement"
        return "not kept: the cache is off"

    def _names(self) -> list[str]:
        return [name for name, _ in self.family.sources if name != "architecture"]

    def _record(self, name: str) -> dict[str, Any]:
        here = self.measured.figures.get(name, self.caches.get(name))
        return {"measured": here, "family": getattr(self.family, name), "source": self.family.source(name)}


def compare(cpus: list[int]) -> MachineComparison:
    """Measures this machine, and keeps the figures for compiles unless other processes disturbed it.

    Args:
        cpus: a CPU of each core that this process may use.
    """
    host = Target.host()
    caches = figures.cache_bytes()
    here = replace(host, figures=tuple(caches.items())).machine
    measured = measurement.measure(here, cpus)
    return MachineComparison(
        replace(host, figures=()).machine, caches, measured, figures.keep(measured, default_cache())
    )


def _short(value: float) -> str:
    return f"{value:.4g}" if value < 10_000 else f"{value:,.0f}"
