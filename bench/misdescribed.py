"""The speed that tuning recovers if the machine is described wrongly.

The cost function chooses schedules by a description of the machine. Here it gets one with half of each cache and half
its bandwidth, twice all latencies, and threads that are twice as slow to start. A model is compiled for the true
description, for the wrong one, and for the wrong one with what `stepwell-tune` found there. All three run in turns.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..driver.api import load
from ..lowering.target import Target
from ..machines.machine import Machine
from ..support.errors import StepwellError
from ..tuning.intervals import GainRange

TRUE, WRONG, TUNED = "described rightly", "described wrongly", "described wrongly, and tuned"

_HALVED, _DOUBLED = ("_bytes", "_rate"), ("_latency", "_ns")
_KEPT = (
    "vector_bytes",
    "line_bytes",
    "page_bytes",
    "double_rate",
    "half_rate",
    "byte_rate",
    "brain_rate",
    "matrix_rate",
)
"""Fields that are properties of the instructions, which code must have right."""

_TURN_SECONDS = 0.02
"""Seconds of calls in a turn, short so that all programs meet the same conditions."""


@dataclass(frozen=True)
class MisdescribedRow:
    """The speeds of one model.

    Attributes:
        model: its name.
        milliseconds: the time of a call, by program.
        wrong: speed of the wrongly described program, relative to the rightly described one.
        tuned: the same of the tuned one.
    """

    model: str
    milliseconds: Mapping[str, float]
    wrong: GainRange
    tuned: GainRange


def wrong_figures(machine: Machine) -> dict[str, float]:
    """Returns the wrong figures of a machine, by field."""
    found: dict[str, float] = {}
    for item in dataclasses.fields(machine):
        if item.name in _KEPT:
            continue
        if item.name.endswith(_HALVED):
            found[item.name] = getattr(machine, item.name) / 2
        elif item.name.endswith(_DOUBLED):
            found[item.name] = getattr(machine, item.name) * 2
    return found


def measure_misdescribed(
    name: str, path: Path, inputs: Mapping[str, np.ndarray], folder: Path, budget: str, threads: int, rounds: int
) -> MisdescribedRow:
    """Compiles and tunes a model, and measures the three programs.

    Args:
        name: the model's name.
        path: its ONNX file.
        inputs: the inputs of the calls.
        folder: where artefacts are written.
        budget: time of the search, as 2m.
        threads: number of threads of a call.
        rounds: number of turns.

    Raises:
        StepwellError: a compile or the search failed.
    """
    figures = wrong_figures(Target.host().machine)
    text = "+".join(f"{field}={value!r}" for field, value in figures.items())
    shapes = [part for key, array in inputs.items() for part in ("--shape", f"{key}={'x'.join(map(str, array.shape))}")]
    table = folder / "wrong.tuning.json"
    files = {kind: folder / f"{number}.stw" for number, kind in enumerate((TRUE, WRONG, TUNED))}
    _run("compile", [str(path), *shapes, "-o", str(files[TRUE])])
    _run("compile", [str(path), *shapes, "-o", str(files[WRONG])], text)
    search = ["--budget", budget, "--threads", str(threads), "--database", str(folder / "trials.sqlite")]
    _run("tune", [str(path), *shapes, *search, "-o", str(table)], text)
    _run("compile", [str(path), *shapes, "--tuning", str(table), "-o", str(files[TUNED])], text)
    programs = {kind: load(file, threads=threads) for kind, file in files.items()}
    times = _times(programs, list(inputs.values()), rounds)
    usual = {kind: float(np.median(spent)) for kind, spent in times.items()}
    return MisdescribedRow(
        name, usual, GainRange.of(times[TRUE], times[WRONG]), GainRange.of(times[TRUE], times[TUNED])
    )


def _run(tool: str, given: Sequence[str], figures: str = "") -> None:
    """Runs a tool in a process of its own, as a process describes its machine once."""
    environment = {**os.environ, "STEPWELL_MACHINE": figures} if figures else dict(os.environ)
    command = [sys.executable, "-m", f"stepwell.tools.{tool}", *given, "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StepwellError(f"stepwell-{tool} failed: {done.stderr.strip() or done.stdout.strip()}")


def _times(programs: Mapping[str, object], inputs: Sequence[np.ndarray], rounds: int) -> dict[str, list[float]]:
    """Returns the least milliseconds of a call in each turn, by program; the order of programs rotates."""
    found: dict[str, list[float]] = {kind: [] for kind in programs}
    kinds = list(programs)
    calls = max(3, int(_TURN_SECONDS / max(1e-6, _least(programs[kinds[0]], inputs, 3))))
    for number in range(rounds):
        first = number % len(kinds)
        for kind in (*kinds[first:], *kinds[:first]):
            found[kind].append(1e3 * _least(programs[kind], inputs, calls))
    return found


def _least(program: object, inputs: Sequence[np.ndarray], calls: int) -> float:
    assert callable(program)
    program(*inputs)
    best = float("inf")
    for _ in range(calls):
        start = time.perf_counter()
        program(*inputs)
        best = min(best, time.perf_counter() - start)
    return best
