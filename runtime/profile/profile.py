"""Profiles: where the time goes, by kernel, by the model's nodes and operators, and by node on the host.

A kernel's time lasts from the start of its first thread to the end of its last one. It is divided among the model's
nodes that the kernel computes, in proportion to their work. All figures are means over the faster half of the calls, so
that they add up and disturbances of single calls are excluded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...support.short_repr import short_repr
from ...support.wording import quantity
from ..devices.cpu_estimates import peak_of
from ..devices.peaks import Peaks
from ..program import KernelInfo, Program
from ..report import html
from .calls import Call, Instance
from .text import tables_of
from .trace import trace_events

SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""


@short_repr
@dataclass(frozen=True)
class Profile:
    """Measurements of several calls of a model.

    Attributes:
        name: the model's name.
        threads: maximum number of threads of a call.
        calls: the calls that count: the faster half.
        made: number of calls recorded.
        peaks: the machine's peaks; None if they were not requested.
    """

    name: str
    threads: int
    calls: Sequence[Call]
    made: int
    peaks: Peaks | None = None

    def beside(self, peaks: Peaks) -> Profile:
        """Returns the profile with times relative to the machine's peaks; see `peaks.known`."""
        return replace(self, peaks=peaks)

    @property
    def seconds(self) -> float:
        """The mean time of a call in seconds."""
        return sum(call.end - call.start for call in self.calls) / len(self.calls) / 1e9

    def record(self) -> dict[str, Any]:
        """Returns all figures, for JSON; times are seconds per call of the model (docs/profile.md)."""
        kernels = self._kernels()
        inside = sum(row["seconds"] for row in kernels)
        host, nodes = self._host(), self._nodes()
        on_host = self._seconds_of_nodes_alone()
        total = self.seconds
        for row in [*kernels, *host]:
            row["share"] = row["seconds"] / total
        return {
            "schema": SCHEMA,
            "model": self.name,
            "threads": self.threads,
            "calls": self.made,
            "seconds": {
                "call": total,
                "kernels": inside,
                "host": on_host,
                "between": max(0.0, total - inside - on_host),
            },
            "peaks": None if self.peaks is None else asdict(self.peaks),
            "kernels": kernels,
            "classes": _grouped(kernels, "class", "calls"),
            "operators": _grouped([{**row, "nodes": 1} for row in nodes], "operator", "nodes"),
            "nodes": nodes,
            "host": host,
        }

    def trace(self) -> dict[str, Any]:
        """Returns the calls in the format of Perfetto and chrome://tracing, with `record` under the key "stepwell"."""
        events = trace_events(self.name, self.calls, os.getpid(), self.peaks)
        return {"traceEvents": events, "displayTimeUnit": "ns", "stepwell": self.record()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace as JSON.

        Raises:
            OSError: the file cannot be written.
        """
        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")

    def __str__(self) -> str:
        """Returns the classes of kernels, and the slowest kernels, nodes and operators, as tables."""
        return tables_of(self.record())

    def _repr_html_(self) -> str:
        found = self.record()
        kernels = [
            (row["kernel"], row["class"], ", ".join(row["nodes"]), f"{row['calls']:.3g}", *_times(row))
            for row in found["kernels"]
        ]
        operators = [(row["operator"], f"{row['nodes']:.3g}", *_times(row)) for row in found["operators"]]
        host = [(row["node"], row["operator"], *_times(row)) for row in found["host"]]
        title = f"{self.name}: {self.seconds * 1e3:.3g} ms a call, {quantity(self.threads, 'thread')}"
        parts = [
            html.heading(title),
            html.table(("kernel", "class", "nodes", "calls", "µs", "share"), kernels),
            html.table(("operator", "nodes", "µs", "share"), operators),
        ]
        if host:
            parts.append(html.table(("on the host", "operator", "µs", "share"), host))
        return "".join(parts)

    def _kernels(self) -> list[dict[str, Any]]:
        found: dict[tuple[int, str], dict[str, Any]] = {}
        for instance, program in self._instances():
            key = id(program), instance.kernel.name
            row = found.setdefault(key, _new_row(instance.kernel, program))
            row["calls"] += 1
            row["seconds"] += (instance.end - instance.start) / 1e9
            row["thread_seconds"] += sum(int(piece[2] - piece[1]) for piece in instance.pieces) / 1e9
        operators = self._operators()
        for row in found.values():
            row["operator"] = operators.get(row["node"], "")
            for name in ("calls", "seconds", "thread_seconds"):
                row[name] /= len(self.calls)
            row["roofline"] = self._roofline(row, row.pop("peak"))
            for amount, rate in (("flops", "gflops_per_second"), ("bytes", "gbytes_per_second")):
                is_known = row[amount] is not None and row["seconds"] > 0
                row[rate] = row[amount] * row["calls"] / row["seconds"] / 1e9 if is_known else None
        return sorted(found.values(), key=lambda row: -row["seconds"])

    def _roofline(self, row: Mapping[str, Any], peak: float) -> float | None:
        """Returns a kernel's minimum time under the machine's peaks, divided by its actual time.

        Args:
            row: the figures of the kernel.
            peak: the peak of its operations, relative to that of float32.
        """
        if self.peaks is None or row["flops"] is None or not row["seconds"]:
            return None
        return row["calls"] * self.peaks.seconds(row["flops"] / peak, row["bytes"]) / row["seconds"]

    def _nodes(self) -> list[dict[str, Any]]:
        """Returns the model's nodes, with their shares of kernels."""
        found: dict[str, dict[str, Any]] = {}
        operators = self._operators()
        for instance, _ in self._instances():
            seconds = (instance.end - instance.start) / 1e9 / len(self.calls)
            for name, share in _shares(instance):
                fresh = {"node": name, "operator": operators.get(name, ""), "seconds": 0.0, "share": 0.0, "kernels": []}
                row = found.setdefault(name, fresh)
                row["seconds"] += share * seconds
                row["share"] = row["seconds"] / self.seconds
                if instance.kernel.name not in row["kernels"]:
                    row["kernels"].append(instance.kernel.name)
        return sorted(found.values(), key=lambda row: -row["seconds"])

    def _operators(self) -> dict[str, str]:
        """Returns the operators of the model's nodes, as far as programs record them."""
        programs = {id(item.program): item.program for call in self.calls for item, _ in call.programs}
        return {node.name: node.type for program in programs.values() for node in program.compile_facts.nodes}

    def _host(self) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for call in self.calls:
            for name, operator, start, end in call.nodes:
                row = found.setdefault(name, {"node": name, "operator": operator, "calls": 0.0, "seconds": 0.0})
                row["calls"] += 1 / len(self.calls)
                row["seconds"] += (end - start) / 1e9 / len(self.calls)
        return sorted(found.values(), key=lambda row: -row["seconds"])

    def _seconds_of_nodes_alone(self) -> float:
        """Returns the seconds in nodes on the host, excluding kernels and nodes that run inside them."""
        total = 0
        for call in self.calls:
            nodes = sorted((start, end) for _, _, start, end in call.nodes)
            outer: list[tuple[int, int]] = []
            for start, end in nodes:
                if not outer or start >= outer[-1][1]:
                    outer.append((start, end))
            kernels = [(item.start, item.end) for _, items in call.programs for item in items]
            inner = sum(b - a for a, b in kernels if any(start <= a and b <= end for start, end in outer))
            total += sum(end - start for start, end in outer) - inner
        return total / 1e9 / len(self.calls)

    def _instances(self) -> list[tuple[Instance, Program]]:
        return [
            (instance, recording.program)
            for call in self.calls
            for recording, instances in call.programs
            for instance in instances
        ]


def _times(row: Mapping[str, Any]) -> tuple[str, str]:
    return f"{row['seconds'] * 1e6:.1f}", f"{row['share']:.1%}"


def _shares(instance: Instance) -> list[tuple[str, float]]:
    """Returns the nodes that a call of a kernel computes, with their shares of it; merged nodes have none."""
    sites = instance.kernel.sites
    chosen = sites if instance.site is None else [sites[instance.site]]
    found = [(name, share / len(chosen)) for site in chosen for name, share in site if share]
    return found or [("", 1.0)]


def _new_row(kernel: KernelInfo, program: Program) -> dict[str, Any]:
    is_exact = program.bounds is None  # for a range of sizes, the work is known only at the upper bounds
    return {
        "kernel": kernel.name,
        "class": kernel.kind,
        "node": next((name for site in kernel.sites for name, _ in site), ""),
        "operator": "",
        "nodes": list(dict.fromkeys(name for site in kernel.sites for name, _ in site)),
        "calls": 0.0,
        "seconds": 0.0,
        "thread_seconds": 0.0,
        "flops": kernel.flops if is_exact else None,
        "bytes": kernel.bytes if is_exact else None,
        "peak": peak_of(program, kernel),
    }


def _grouped(rows: Sequence[Mapping[str, Any]], key: str, counted: str) -> list[dict[str, Any]]:
    """Returns the sums of rows with equal values of a key."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        group = found.setdefault(row[key], {key: row[key], counted: 0, "seconds": 0.0, "share": 0.0})
        for name in (counted, "seconds", "share"):
            group[name] += row[name]
    return sorted(found.values(), key=lambda row: -row["seconds"])
