"""The command `budget` of `stepwell-bench`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..tools.console import print_table
from ..tools.flags import UsageError
from .budget import BudgetRow, budget_models, measure_budget
from .machine import describe
from .models import BenchModel, MissingModel
from .planted_faults import PLANTED, FaultRow, name_fault

_LEAST_SAVED = 0.15
"""Part of the best uniform width's bytes that a mixed model should save."""


def measure_budgets(options: argparse.Namespace) -> int:
    """Quantises real models within budgets, and models with planted faults; returns the exit code."""
    models = _chosen(options.models)
    rows: list[BudgetRow] = []
    faults: list[FaultRow] = []
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder:
        for model in models:
            try:
                path = model.file(Path(folder))
            except MissingModel as error:
                print(f"stepwell-bench: warning: {model.name} is left out: {error}", file=sys.stderr)
                continue
            rows.append(measure_budget(model, path, options.samples))
            print(f"stepwell-bench: {model.name}: {rows[-1].seconds:.0f} s", file=sys.stderr)
        if not options.models:
            faults = [name_fault(fault, Path(folder)) for fault in PLANTED]
    if options.json:
        listed = [{**asdict(row), "saved": row.saved, "is_met": row.is_met} for row in rows]
        named = [{**asdict(row), "is_named": row.is_named} for row in faults]
        print(json.dumps({"schema": 1, "machine": asdict(describe()), "budgets": listed, "faults": named}))
        return 0
    print_table(*_budgets(rows), numbers=_NUMBERS)
    if faults:
        columns = ("fault", "named", "reasons", "cure")
        print_table(
            columns, [(row.fault, "yes" if row.is_named else "NO", "; ".join(row.reasons), row.cure) for row in faults]
        )
    print(_summary(rows, faults))
    return 0


def _chosen(names: Sequence[str]) -> list[BenchModel]:
    by_name = {model.name: model for model in budget_models()}
    for name in names:
        if name not in by_name:
            raise UsageError(f"{name}: not one of {', '.join(by_name)}")
    return [by_name[name] for name in names] or list(by_name.values())


_COLUMNS = ("model", "products", "asked", "error", "int8, kB", "int4, kB", "mixed, kB", "saved", "shares", "s")
_NUMBERS = _COLUMNS[1:]


def _budgets(rows: Sequence[BudgetRow]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    cells = [
        (
            row.model,
            str(row.products),
            f"{row.asked:.3g}",
            f"{row.error:.3g}" + ("" if row.is_met else " (missed)"),
            *(f"{row.uniform[name] / 1e3:.1f}" for name in ("int8", "int4")),
            f"{row.bytes / 1e3:.1f}",
            f"{100 * row.saved:.0f} %",
            f"{row.shares:.3f}",
            f"{row.seconds:.0f}",
        )
        for row in rows
    ]
    return _COLUMNS, cells


def _summary(rows: Sequence[BudgetRow], faults: Sequence[FaultRow]) -> str:
    met, small = sum(row.is_met for row in rows), sum(row.saved >= _LEAST_SAVED for row in rows)
    text = f"{met} of {len(rows)} models meet the error, {small} save {100 * _LEAST_SAVED:.0f} % or more"
    return f"{text}; {sum(row.is_named for row in faults)} of {len(faults)} faults named" if faults else text
