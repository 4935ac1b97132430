"""Answers about trials, as records for JSON and for tables: what was tried, what is fastest, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.program import SHORT_NAME
from ..support.wording import quantity
from .choices import best_trials, latest_trials
from .database import OK, Database, KernelRow, Trial
from .errors import TuningError
from .model import ESTIMATED

_NEAR = 0.02
"""Relative difference below which two times count as equal."""


def listed(database: Database) -> list[dict[str, Any]]:
    """Returns a record of each kernel: its trials by number of threads and machine, and the best gain."""
    groups: dict[tuple[str, str, str, int], list[Trial]] = {}
    for trial in database.trials():
        conditions = trial.conditions
        groups.setdefault((trial.kernel, conditions.machine, conditions.compiler, conditions.threads), []).append(trial)
    kernels, records = database.kernels(), []
    for (name, machine, compiler, threads), trials in groups.items():
        best = next(iter(best_trials(trials)), None)
        row = kernels.get(name)
        records.append(
            {
                "kernel": name,
                "class": row.kind if row else "",
                "nodes": list(row.nodes) if row else [],
                "machine": machine,
                "compiler": compiler,
                "threads": threads,
                "trials": len(trials),
                "failed": sum(trial.status != OK for trial in trials),
                "gain": best.gain if best else 1.0,
            }
        )
    return sorted(records, key=lambda record: -record["gain"])


def find_kernel(database: Database, name: str) -> KernelRow:
    """Returns the kernel of a name, of the first characters of a name, or of a node that it computes.

    Raises:
        TuningError: there is none, or there are several.
    """
    kernels = database.kernels()
    if name in kernels:
        return kernels[name]
    found = [item for item in kernels.values() if item.name.startswith((name, f"kernel_{name}"))]
    found = found or [item for item in kernels.values() if name in item.nodes]
    if len(found) == 1:
        return found[0]
    if not found:
        raise TuningError(f"there are no trials of a kernel '{name}'; stepwell-tune list shows those with trials")
    names = ", ".join(item.name[:SHORT_NAME] for item in found)
    raise TuningError(f"{len(found)} kernels are called or compute '{name}': {names}")


def shown(database: Database, kernel: KernelRow) -> list[dict[str, Any]]:
    """Returns a record of each trial of a kernel, the fastest first."""
    trials = sorted(database.trials(kernel=kernel.name), key=lambda trial: -(trial.gain or 0))
    return [
        {
            "schedule": dict(trial.schedule),
            "status": trial.status,
            "reason": trial.reason,
            **{name: getattr(trial, name) for name in ("gain", "low", "high", "predicted", "turns", "searcher")},
            "seconds": None if trial.nanoseconds is None else trial.nanoseconds / 1e9,
            "threads": trial.conditions.threads,
        }
        for trial in trials
    ]


def difference(kernel: KernelRow, schedule: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a diff from the default schedule to another one."""
    lines = []
    for name in sorted({*kernel.defaults, *schedule}):
        usual, chosen = kernel.defaults.get(name), schedule.get(name, kernel.defaults.get(name))
        if usual == chosen:
            lines.append(f"  {name} = {usual}")
            continue
        lines += [f"- {name} = {usual}"] if usual is not None else []
        lines.append(f"+ {name} = {chosen}")
    return lines


def why(database: Database, kernel: KernelRow) -> dict[str, Any]:
    """Returns why a kernel has the schedule that it has: the numbers for it, and for the others."""
    trials = latest_trials(database.trials(kernel=kernel.name))
    reasons = Counter(trial.reason for trial in trials if trial.status != OK)
    best = max(best_trials(trials), key=lambda trial: trial.low or 0, default=None)
    measured = [trial for trial in trials if trial.gain]
    known = [trial for trial in measured if trial.predicted]
    right = sum(((trial.predicted or 1) > 1) == ((trial.gain or 1) > 1) for trial in known)
    return {
        "kernel": kernel.name,
        "class": kernel.kind,
        "nodes": list(kernel.nodes),
        "verdict": _verdict(best, measured, trials),
        "gain": best.gain if best else 1.0,
        "low": best.low if best else 1.0,
        "high": best.high if best else 1.0,
        "predicted": best.predicted if best else None,
        "schedule": difference(kernel, best.schedule if best else {}),
        "slower": sum((trial.high or 0) < 1 for trial in measured),
        "equal": sum(abs((trial.gain or 1) - 1) < _NEAR for trial in measured),
        "predicted right": [right, len(known)],
        "failures": dict(reasons.most_common()),
    }


def _verdict(best: Trial | None, measured: Sequence[Trial], trials: Sequence[Trial]) -> str:
    if best is not None and best.is_estimated:
        return f"tuned: {best.gain:.3f} times as fast as the default; times are {ESTIMATED}, not measured"
    if best is not None:
        text = f"tuned: {best.gain:.3f} times as fast as the default, {best.low:.3f} to {best.high:.3f} with 95 %"
        return (
            f"{text} confidence, in {quantity(best.turns, 'turn')} with {quantity(best.conditions.threads, 'thread')}"
        )
    if not trials:
        return "default: nothing was tried"
    fastest = max(measured, key=lambda trial: trial.gain or 0, default=None)
    if fastest is None:
        return f"default: none of {quantity(len(trials), 'trial')} gave a time"
    near = f"the fastest of {quantity(len(trials), 'trial')} has {fastest.gain:.3f} times its speed"
    return f"default: {near}, {fastest.low:.3f} to {fastest.high:.3f}, which is not certainly faster"
