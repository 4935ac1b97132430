"""A profile as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...support.tables import aligned
from ...support.wording import duration, quantity
from ..program import SHORT_NAME

_TOP = 15
"""Number of rows of a table: a choice, so that all tables fit a screen."""


def tables_of(record: Mapping[str, Any], top: int = _TOP, width: int | None = None) -> str:
    """Returns the tables of a profile's record: classes, the slowest kernels and nodes, and time outside kernels.

    With a width, lines are at most as long.
    """
    seconds = record["seconds"]
    threads, call = quantity(record["threads"], "thread"), duration(seconds["call"])
    rest = [("nodes on the host", seconds["host"]), ("between kernels", seconds["between"])]
    classes = [(row["class"], *_spent(row)) for row in record["classes"]]
    classes += [(name, duration(took), _percent(took / seconds["call"])) for name, took in rest if took]
    kernels = [_kernel(row) for row in record["kernels"][:top]]
    nodes = [(row["node"] or "(no name)", *_spent(row)) for row in record["nodes"][:top]]
    operators = [
        (row["operator"] or "(not known)", str(row["nodes"]), *_spent(row)) for row in record["operators"][:top]
    ]
    host = [(row["node"], row["operator"], *_spent(row)) for row in record["host"][:top]]
    headers = ("kernel", "class", "time", "share", "calls", "GFLOP/s", "GB/s", "roofline", "nodes")
    parts = [
        f"one call takes {call} with {threads}, the mean of the faster half of {record['calls']}\n"
        + aligned(("class of kernel", "time", "share"), classes, (1, 2), width),
        aligned(headers, kernels, range(2, 8), width) + _more(record["kernels"], top),
        aligned(("node (its share of kernels)", "time", "share"), nodes, (1, 2), width) + _more(record["nodes"], top),
        aligned(("operator", "nodes", "time", "share"), operators, (1, 2, 3), width),
        aligned(("on the host", "operator", "time", "share"), host, (2, 3), width) if host else "",
    ]
    return "\n\n".join(filter(None, parts))


def _more(rows: Sequence[object], top: int) -> str:
    return f"\n... and {len(rows) - top} more" if len(rows) > top else ""


def _kernel(row: Mapping[str, Any]) -> tuple[str, ...]:
    others = len(row["nodes"]) - 1
    node = f"{row['node']} ({row['operator']})" if row["operator"] else row["node"]
    nodes = f"{node} and {others} more" if others > 0 else node
    rates = [_rate(row[name]) for name in ("gflops_per_second", "gbytes_per_second")]
    bound = "-" if row["roofline"] is None else _percent(row["roofline"], 0)
    return row["kernel"][:SHORT_NAME], row["class"], *_spent(row), f"{row['calls']:g}", *rates, bound, nodes


def _spent(row: Mapping[str, Any]) -> tuple[str, str]:
    return duration(row["seconds"]), _percent(row["share"])


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _rate(number: float | None) -> str:
    return f"{number:.3g}" if number else "-"
