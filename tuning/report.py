"""A search as an HTML page without scripts: each kernel's course, its schedule as a diff, predicted and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from ..runtime.program import SHORT_NAME
from ..support.wording import quantity
from .database import KernelRow, Trial
from .explanations import difference
from .model import ESTIMATED
from .session import KernelCourse, SearchResult

MARK = "<!-- Written by stepwell-tune -->"
_STYLE = """body{font:14px system-ui;margin:2em;max-width:70em}table{border-collapse:collapse}
td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:left}svg{margin-right:1em}
pre{background:#f6f6f6;padding:.6em}ins{color:#0a7a2f;text-decoration:none}del{color:#b02020;text-decoration:none}
.plots{display:flex;flex-wrap:wrap;align-items:flex-start}figcaption{color:#666;font-size:12px}figure{margin:0}"""
_WIDTH, _HEIGHT, _MARGIN = 380, 190, 34
"""Sizes of a plot in pixels."""


def page(model: str, *results: SearchResult) -> str:
    """Returns the page of the searches for a model, one for each kind of machine."""
    return (
        f"<!doctype html>{MARK}<meta charset='utf-8'><title>Tuning of {escape(model)}</title><style>{_STYLE}</style>"
        f"<h1>Tuning of {escape(model)}</h1>{''.join(map(_search, results))}"
    )


def _search(result: SearchResult) -> str:
    rows = "".join(_row(course, result) for course in result.courses)
    parts = "".join(_course(course, result) for course in result.courses if course.trials)
    return (
        f"<p>Machine {escape(result.conditions.machine[:SHORT_NAME])}: {escape(summary(result))}</p>"
        "<table><tr><th>kernel</th><th>class</th><th>nodes</th><th>share</th><th>trials</th><th>gain</th></tr>"
        f"{rows}</table>{parts}"
    )


def summary(result: SearchResult) -> str:
    """Returns the outcome of a search in one sentence."""
    if any(trial.is_estimated for course in result.courses for trial in course.trials):
        return _estimated_summary(result)
    text = f"{result.trials} trials in {result.seconds:.0f} s with {result.conditions.threads} threads: "
    if result.whole is None:
        return text + "nothing is certainly faster than the default"
    gain = result.whole.gain
    decisions = sum(len(trial.schedule) for trial in result.winners.values() if trial.is_graph)
    kernels = f"{len(result.winners)} of {len(result.courses)} kernels are tuned"
    kernels = f"{quantity(decisions, 'decision')} on the graph changed" if decisions else kernels
    return f"{text}{kernels}, and a call is {gain.value:.3f} times as fast ({gain.low:.3f} to {gain.high:.3f})"


def _estimated_summary(result: SearchResult) -> str:
    text = f"{result.trials} schedules in {result.seconds:.0f} s, whose times are {ESTIMATED}, not measured: "
    if result.whole is None:
        return text + "none is faster than the default"
    kernels = f"{len(result.winners)} of {len(result.courses)} kernels are tuned"
    return f"{text}{kernels}, and their launches would be {result.whole.gain.value:.3f} times as fast"


def _row(course: KernelCourse, result: SearchResult) -> str:
    winner = result.winners.get(course.kernel.name)
    gain = "default" if winner is None else f"{winner.gain:.3f} ({winner.low:.3f} to {winner.high:.3f})"
    nodes = ", ".join(course.kernel.info.ops[:3])
    cells = (course.kernel.name[:SHORT_NAME], course.kernel.info.kind, nodes, f"{course.share:.1%}")
    cells = (*cells, str(len(course.trials)), gain)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _course(course: KernelCourse, result: SearchResult) -> str:
    kernel, info = course.kernel, course.kernel.info
    row = KernelRow(kernel.name, info.kind, info.ops, info.flops, info.bytes, kernel.space.default)
    winner = result.winners.get(kernel.name)
    measured = [trial for trial in course.trials if trial.gain]
    failed = len(course.trials) - len(measured)
    known = [trial for trial in measured if trial.predicted]
    plots = _figure(_course_plot(measured), f"gain by trial; the line is the best so far ({failed} failed)")
    if known:
        plots += _figure(_scatter(known), "gain predicted by the cost function (across), and measured (up)")
    return (
        f"<h2>{escape(kernel.name[:SHORT_NAME])} ({escape(', '.join(info.ops[:3]))})</h2>"
        f"<pre>{_diff(difference(row, winner.schedule if winner else {}))}</pre><div class='plots'>{plots}</div>"
    )


def _diff(lines: Sequence[str]) -> str:
    tags = {"+": "ins", "-": "del"}
    return "\n".join(
        f"<{tags[line[0]]}>{escape(line)}</{tags[line[0]]}>" if line[0] in tags else escape(line) for line in lines
    )


def _figure(plot: str, caption: str) -> str:
    return f"<figure>{plot}<figcaption>{escape(caption)}</figcaption></figure>"


class _Axes:
    """A plot with linear axes from given ranges to pixels."""

    def __init__(self, across: tuple[float, float], up: tuple[float, float]) -> None:
        self._across, self._up = across, up
        self.marks: list[str] = []
        for value in (up[0], 1.0, up[1]):
            level = self.y(value)
            self.marks.append(f"<line x1='{_MARGIN}' x2='{_WIDTH}' y1='{level:.1f}' y2='{level:.1f}' stroke='#ddd'/>")
            self.marks.append(f"<text x='2' y='{level + 4:.1f}' font-size='11'>{value:.2f}</text>")

    def x(self, value: float) -> float:
        low, high = self._across
        return _MARGIN + (value - low) / ((high - low) or 1) * (_WIDTH - _MARGIN - 8)

    def y(self, value: float) -> float:
        low, high = self._up
        return _HEIGHT - 10 - (value - low) / ((high - low) or 1) * (_HEIGHT - 20)

    def point(self, across: float, up: float, text: str) -> None:
        """Adds a point with a tooltip."""
        center = f"cx='{self.x(across):.1f}' cy='{self.y(up):.1f}'"
        self.marks.append(f"<circle {center} r='3' fill='#2563eb'><title>{escape(text)}</title></circle>")

    def line(self, points: Sequence[tuple[float, float]]) -> None:
        """Adds a line through points."""
        text = " ".join(f"{self.x(across):.1f},{self.y(up):.1f}" for across, up in points)
        self.marks.append(f"<polyline points='{text}' fill='none' stroke='#0a7a2f' stroke-width='2'/>")

    def svg(self) -> str:
        """Returns the plot."""
        return f"<svg width='{_WIDTH}' height='{_HEIGHT}'>{''.join(self.marks)}</svg>"


def _range(values: Sequence[Any]) -> tuple[float, float]:
    known = [float(value) for value in values if math.isfinite(value)]
    return max(0.0, min([*known, 0.95])), max([*known, 1.05])


def _course_plot(trials: Sequence[Trial]) -> str:
    gains = [trial.gain or 0.0 for trial in trials]
    axes, best, line = _Axes((0, max(1, len(gains) - 1)), _range(gains)), 1.0, []
    for number, (trial, gain) in enumerate(zip(trials, gains, strict=True)):
        best = max(best, gain if (trial.low or 0) > 1 else 1.0)
        line.append((number, best))
        axes.point(number, gain, f"{gain:.3f}: {trial.key}")
    axes.line(line)
    return axes.svg()


def _scatter(trials: Sequence[Trial]) -> str:
    gains, predicted = [trial.gain or 0.0 for trial in trials], [trial.predicted or 0.0 for trial in trials]
    axes = _Axes(_range(predicted), _range(gains))
    for trial, across, up in zip(trials, predicted, gains, strict=True):
        axes.point(across, up, f"predicted {across:.3f}, measured {up:.3f}: {trial.key}")
    return axes.svg()
