"""Draws a file of results: how many times faster Stepwell is, and kernels under the roofline."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl  # pyright: ignore[reportMissingImports]
from matplotlib import colormaps  # pyright: ignore[reportMissingImports]
from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # pyright: ignore[reportMissingImports]

from ..runtime.devices.peaks import Peaks
from ..support.wording import quantity
from .record import CaseRows, Results, ResultsError

_COLORS = {
    "onnxruntime": "#4c78a8",
    "openvino": "#f58518",
    "torch": "#e45756",
    "torch.compile": "#b279a2",
    "iree": "#72b7b2",
    "numpy": "#9d755d",
}
_HERE = "#54a24b"
_INCH_PER_GROUP, _INCH_PER_KERNEL = 0.75, 0.17
# Ratios beyond these limits are cut off, and written at the end of the bar.
_LEAST, _MOST = 0.25, 8.0


_GAP = " not run"
"""Text in place of a bar: the peer has no such model, or rejects it; the results file has the reason."""


def draw(results: Results, path: Path) -> None:
    """Writes the picture, in the format of the file's suffix (png, svg, pdf).

    Raises:
        ResultsError: there is nothing to draw.
    """
    drawings = {"models": _models, "kernels": _kernels, "growth": _growth, "sessions": _sessions}
    with mpl.rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}):
        figure = drawings[results.what](results)
        versions = ", ".join(f"{name} {version}" for name, version in results.machine.versions.items())
        width = int(18 * figure.get_figwidth())
        lines = textwrap.wrap(f"{results.machine}; {results.date}", width) + textwrap.wrap(versions, width)
        figure.suptitle("\n".join(lines), fontsize=7)
        figure.savefig(path, dpi=130)


def _models(results: Results) -> Figure:
    """One panel per number of threads, one group of bars per model."""
    threads = _threads(results)
    peers = [name for name in _COLORS if any(name in case.peers for case in results.cases())]
    widest = max(len(_cases(results, count)) for count in threads)
    figure = Figure(figsize=(3 + _INCH_PER_GROUP * widest, 3.6 * len(threads)), layout="constrained")
    for axes, count in zip(_panels(figure, len(threads), 1), threads, strict=True):
        cases, width = _cases(results, count), 0.8 / len(peers)
        for at, name in enumerate(peers):
            offset = (at - (len(peers) - 1) / 2) * width
            ratios = [(x, ratio) for x, case in enumerate(cases) if (ratio := case.speedup(case.peers.get(name)))]
            positions = [x + offset for x, _ in ratios]
            axes.bar(positions, [_cut(ratio) - 1 for _, ratio in ratios], width, 1, color=_COLORS[name], label=name)
            for position, (_, ratio) in zip(positions, ratios, strict=True):
                if ratio != _cut(ratio):
                    axes.text(position, _cut(ratio), f" {ratio:.3g} ", rotation=90, ha="center", va="top", fontsize=6)
            for x in sorted({*range(len(cases))} - {x for x, _ in ratios}):
                axes.text(x + offset, 1, _GAP, rotation=90, ha="center", va="bottom", fontsize=5, color=_COLORS[name])
        _ratio_axis(axes, "y")
        axes.axhline(1, color="black", linewidth=0.8)
        means = results.speedups()[str(count)]
        axes.set_title(f"{_count(count)}: geometric mean over the fastest peer {means.get('fastest', math.nan):.2f}")
        axes.set_ylabel("times faster than the peer")
        axes.set_xticks(range(len(cases)), [case.here.case for case in cases], rotation=30, ha="right")
        axes.legend(ncols=len(peers), frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.06))
    return figure


def _kernels(results: Results) -> Figure:
    """For each number of threads the roofline, and a bar per kernel."""
    threads = _threads(results)
    most = max(len(_cases(results, count)) for count in threads)
    size = (14, max(5.0, _INCH_PER_KERNEL * most) * len(threads))
    figure = Figure(figsize=size, layout="constrained")
    panels = _panels(figure, len(threads), 2)
    for at, count in enumerate(threads):
        _roofline(panels[2 * at], _cases(results, count), results.peaks[count])
        _bars(panels[2 * at + 1], _cases(results, count), count)
    return figure


def _roofline(axes: Any, cases: list[CaseRows], peaks: Peaks) -> None:
    # A transpose has no floating-point operations.
    families = list(dict.fromkeys(case.here.family for case in cases if case.here.flops))
    colors = {name: colormaps["tab20"](at % 20) for at, name in enumerate(families)}
    for case in cases:
        row, peer = case.here, case.fastest
        if not row.flops or not row.bytes or row.median_seconds is None:
            continue
        intensity = row.flops / row.bytes
        if peer is not None and peer.median_seconds is not None:
            rates = [row.flops / seconds / 1e9 for seconds in (peer.median_seconds, row.median_seconds)]
            axes.plot([intensity, intensity], rates, color="lightgrey", linewidth=1, zorder=1)
            axes.plot(intensity, rates[0], "_", color="grey", zorder=2)
        axes.plot(
            intensity, row.flops / row.median_seconds / 1e9, "o", color=colors[row.family], markersize=4, zorder=3
        )
    for family, color in colors.items():
        axes.plot([], [], "o", color=color, markersize=4, label=family)
    axes.plot([], [], "_", color="grey", label="the fastest peer")
    ends = (0.03, 600.0)
    for size, style in ((1 << 20, ":"), (max(size for size, _ in peaks.copy), "-")):
        rate = peaks.copy_rate(size)
        ridge = peaks.flops / rate
        heights = [rate * ends[0] / 1e9, peaks.flops / 1e9, peaks.flops / 1e9]
        label = f"copying {size / (1 << 20):.0f} MiB: {rate / 1e9:.0f} GB/s"
        axes.plot([ends[0], ridge, ends[1]], heights, style, color="black", linewidth=1, label=label)
    axes.set(xscale="log", yscale="log", xlabel="floating-point operations per byte", ylabel="GFLOP/s")
    axes.set_title(f"{_count(peaks.threads)}: roofline, multiply-add peak {peaks.flops / 1e9:.0f} GFLOP/s")
    axes.legend(fontsize=6, frameon=False, loc="lower right")


def _bars(axes: Any, cases: list[CaseRows], threads: int) -> None:
    for y, case in enumerate(reversed(cases)):
        ratio = case.speedup(case.fastest)
        if ratio is not None and case.fastest is not None:
            axes.barh(y, _cut(ratio) - 1, 0.8, 1, color=_COLORS.get(case.fastest.system, "grey"))
            if ratio != _cut(ratio):
                side = "right" if ratio > 1 else "left"
                axes.text(_cut(ratio), y, f" {ratio:.3g} ", ha=side, va="center", fontsize=6)
    for name in dict.fromkeys(case.fastest.system for case in cases if case.fastest is not None):
        axes.barh(0, 0, 0, 1, color=_COLORS.get(name, "grey"), label=name)
    _ratio_axis(axes, "x")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(cases)), [case.here.case for case in reversed(cases)], fontsize=6)
    axes.set_ylim(-0.6, len(cases) - 0.4)
    axes.set_title(f"{_count(threads)}: times faster than the fastest peer (by colour)")
    axes.legend(frameon=False, loc="lower right")


def _growth(results: Results) -> Figure:
    """Seconds by number of layers, one line per system."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    (axes,) = _panels(figure, 1, 1)
    for name in dict.fromkeys(row.system for row in results.rows):
        rows = [row for row in results.rows if row.system == name and row.cold_seconds is not None]
        layers = [int(row.case.rpartition("-")[2]) for row in rows]
        axes.plot(layers, [row.cold_seconds for row in rows], "o-", color=_COLORS.get(name, _HERE), label=name)
    axes.set(xlabel="layers", ylabel="seconds to the first outputs, without cache", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def _sessions(results: Results) -> Figure:
    """Throughput of two sessions: one panel per number of threads, one group of bars per model."""
    threads = _threads(results)
    figure = Figure(figsize=(7, 3.2 * len(threads)), layout="constrained")
    for axes, count in zip(_panels(figure, len(threads), 1), threads, strict=True):
        rows = [row for row in results.rows if row.threads == count and row.one_session and row.two_sessions]
        systems, models = (
            list(dict.fromkeys(names)) for names in zip(*((row.system, row.case) for row in rows), strict=True)
        )
        width = 0.8 / len(systems)
        for at, name in enumerate(systems):
            own = [row for row in rows if row.system == name]
            positions = [models.index(row.case) + (at - (len(systems) - 1) / 2) * width for row in own]
            heights = [(row.two_sessions or 0) / (row.one_session or 1) for row in own]
            axes.bar(positions, heights, width, color=_COLORS.get(name, _HERE), label=name)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_title(f"two sessions of {_count(count)} each")
        axes.set_ylabel("calls per second, relative to one session")
        axes.set_xticks(range(len(models)), models, rotation=20, ha="right")
        axes.legend(ncols=len(systems), frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.06))
    return figure


def _panels(figure: Figure, rows: int, columns: int) -> list[Any]:
    return [figure.add_subplot(rows, columns, at + 1) for at in range(rows * columns)]


def _ratio_axis(axes: Any, name: str) -> None:
    """A logarithmic axis of ratios, with plain numbers."""
    axes.set(**{f"{name}scale": "log", f"{name}lim": (_LEAST, _MOST)})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[name]
    axis.set_major_locator(FixedLocator([0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 6, 8]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axes.grid(axis=name, color="#eeeeee")
    axes.set_axisbelow(True)


def _cut(ratio: float) -> float:
    return min(max(ratio, _LEAST), _MOST)


def _threads(results: Results) -> list[int]:
    found = sorted({row.threads for row in results.rows})
    if not found:
        raise ResultsError("the file has no figures to draw")
    return found


def _cases(results: Results, threads: int) -> list[CaseRows]:
    return [case for case in results.cases() if case.here.threads == threads and case.here.median_seconds is not None]


def _count(threads: int) -> str:
    return quantity(threads, "thread")
