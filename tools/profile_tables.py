"""Tables of a profile on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.program import SHORT_NAME
from .console import duration, print_table

_TOP = 15
"""Number of the slowest kernels and nodes that are listed: a choice that fits a terminal."""


def print_profile(record: Mapping[str, Any], top: int = _TOP) -> None:
    """Prints the record of a profile: classes of kernels, the slowest kernels and nodes, and time outside kernels."""
    seconds = record["seconds"]
    count = f"{record['threads']} threads" if record["threads"] > 1 else "1 thread"
    print(
        f"\none call takes {duration(seconds['call'])} with {count}, the mean of the faster half of {record['calls']}"
    )
    rest = [("nodes on the host", seconds["host"]), ("between kernels", seconds["between"])]
    rows = [(row["class"], duration(row["seconds"]), _percent(row["share"])) for row in record["classes"]]
    rows += [(name, duration(took), _percent(took / seconds["call"])) for name, took in rest if took]
    print_table(("class of kernel", "time", "share"), rows, numbers=("time", "share"))
    print()
    _print_top("kernel", record["kernels"], _kernel, top)
    print()
    _print_top("node", record["nodes"], lambda row: (row["node"] or "(no name)", *_spent(row)), top)
    rows = [(row["operator"] or "(not known)", str(row["nodes"]), *_spent(row)) for row in record["operators"][:top]]
    print_table(("operator", "nodes", "time", "share"), rows, numbers=("nodes", "time", "share"))
    print()
    if record["host"]:
        print()
        rows = [(row["node"], row["operator"], *_spent(row)) for row in record["host"][:top]]
        print_table(("on the host", "operator", "time", "share"), rows, numbers=("time", "share"))


def _print_top(what: str, rows: Sequence[Mapping[str, Any]], cells: Any, top: int) -> None:
    headers = {
        "kernel": ("kernel", "class", "time", "share", "calls", "GFLOP/s", "GB/s", "roofline", "nodes"),
        "node": ("node (its share of kernels)", "time", "share"),
    }[what]
    print_table(headers, [cells(row) for row in rows[:top]], ("time", "share", "calls", "GFLOP/s", "GB/s", "roofline"))
    if len(rows) > top:
        print(f"... and {len(rows) - top} more")


def _kernel(row: Mapping[str, Any]) -> tuple[str, ...]:
    others = len(row["nodes"]) - 1
    node = f"{row['node']} ({row['operator']})" if row["operator"] else row["node"]
    nodes = f"{node} and {others} more" if others > 0 else node
    rates = [_rate(row[name]) for name in ("gflops_per_second", "gbytes_per_second")]
    bound = "-" if row["roofline"] is None else f"{100 * row['roofline']:.0f} %"
    return row["kernel"][:SHORT_NAME], row["class"], *_spent(row), f"{row['calls']:g}", *rates, bound, nodes


def _spent(row: Mapping[str, Any]) -> tuple[str, str]:
    return duration(row["seconds"]), _percent(row["share"])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _rate(number: float | None) -> str:
    return f"{number:.3g}" if number else "-"
