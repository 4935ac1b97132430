"""The table of ops and interfaces: what the compiler knows about each op, and which parts are missing."""

from __future__ import annotations

import importlib
import pkgutil

from ..dialects.core import Op
from ..dialects.interfaces import INTERFACES
from ..dialects.registry import OPS

_ROOT = __name__.partition(".explain.")[0]
_ROOMS = ("passes", "lowering", "targets")
"""Packages that declare interfaces."""


def op_coverage() -> str:
    """Returns the table as text: a row per op with its kernel class, rounding, and `x` for flops and interfaces."""
    for room in _ROOMS:
        package = importlib.import_module(f"{_ROOT}.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    names = sorted(INTERFACES)
    rows = [
        ["op", "kernel", "rounding", "flops", *names],
        *(_row(name, kind, names) for name, kind in sorted(OPS.items())),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    summaries = [f"{name.ljust(max(map(len, names)))}  {INTERFACES[name].summary}" for name in names]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*table, "", *summaries])


def _row(name: str, kind: type[Op], interfaces: list[str]) -> list[str]:
    kernel = "-" if kind.KERNEL is None else kind.KERNEL.kind
    marks = ("-" if INTERFACES[item].of(kind) is None else "x" for item in interfaces)
    has_flops = "-" if kind.flops is Op.flops else "x"
    return [name, kernel, kind.ROUNDING.value, has_flops, *marks]
