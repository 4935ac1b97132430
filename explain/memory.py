"""The layout of a program's arena over time, as a record and as a picture."""

from __future__ import annotations

import importlib.util
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..runtime.memory import ALIGNMENT
from ..runtime.program import ArenaBuffer, Program
from ..support.errors import StepwellError

SCHEMA = 1
"""Version of the record, raised when a key is removed or changes its meaning."""
SUFFIXES = (".svg", ".png", ".pdf", ".json")
"""File suffixes that `save` supports."""
_WORKSPACE = ".workspace"
_NAMED_AREA = 0.004
"""Smallest share of the picture's area with room for a buffer's name."""


class MemoryPictureError(StepwellError):
    """Raised if the picture cannot be drawn; the message says what to do."""


def record(program: Program) -> dict[str, Any]:
    """The layout of a program's arena, for JSON.

    `alive_bytes` are the bytes in use at each step, from step 0; their maximum is `lower_bound`, which no plan can
    undercut.
    """
    alive = alive_bytes(program.buffers)
    kinds = {kernel.name: kernel.kind for kernel in program.kernels}
    return {
        "schema": SCHEMA,
        "arena_bytes": program.arena_bytes,
        "lower_bound": max(alive, default=0),
        "alive_bytes": alive,
        "buffers": [{**item._asdict(), "class": _kind(item, kinds)} for item in program.buffers],
    }


def alive_bytes(buffers: Sequence[ArenaBuffer]) -> list[int]:
    """Returns the bytes in use at each step, with each buffer's size rounded up to the alignment."""
    change: defaultdict[int, int] = defaultdict(int)
    for item in buffers:
        size = -(-item.bytes // ALIGNMENT) * ALIGNMENT
        change[item.first] += size
        change[item.last + 1] -= size
    found, now = [], 0
    for step in range(max((item.last + 1 for item in buffers), default=0)):
        now += change[step]
        found.append(now)
    return found


def _kind(item: ArenaBuffer, kinds: dict[str, str]) -> str:
    """Returns the class of the kernel that writes the buffer, or its purpose."""
    return "workspace" if item.name.endswith(_WORKSPACE) else kinds.get(item.name, item.name or "other")


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Writes the record to a .json file, and the picture to a file of any other kind; see `draw`."""
    if os.path.splitext(path)[1] == ".json":
        Path(path).write_text(json.dumps(record(program), indent=1), encoding="utf-8")
    else:
        draw(program, path)


def draw(program: Program, path: str | os.PathLike[str]) -> None:
    """Draws the arena over time: a rectangle for each buffer, as wide as its lifetime and as high as its size.

    Args:
        program: the program.
        path: the file, .svg, .png or .pdf.

    Raises:
        MemoryPictureError: matplotlib is not installed, or the file is of another kind.
        OSError: the file cannot be written.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MemoryPictureError("pictures need matplotlib: pip install matplotlib")
    if os.path.splitext(path)[1] not in SUFFIXES[:3]:
        raise MemoryPictureError(f"{os.fspath(path)}: the layout of memory can be written to .svg, .png, .pdf or .json")
    import matplotlib as mpl  # pyright: ignore[reportMissingImports]
    from matplotlib import colormaps  # pyright: ignore[reportMissingImports]
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
    from matplotlib.patches import Patch, Rectangle  # pyright: ignore[reportMissingImports]

    facts = record(program)
    alive, buffers = facts["alive_bytes"], facts["buffers"]
    kinds = sorted({item["class"] for item in buffers})
    colours = {kind: colormaps["tab10"](index % 10) for index, kind in enumerate(kinds)}
    unit, scale = ("MB", 1e6) if program.arena_bytes >= 1e6 else ("kB", 1e3)
    steps, height = max(len(alive), 1), max(program.arena_bytes, 1)
    figure = Figure(figsize=(13, 6), layout="constrained")
    axes = figure.subplots()
    for item in buffers:
        place, width, size = (item["first"], item["offset"] / scale), item["last"] - item["first"] + 1, item["bytes"]
        box = {"facecolor": colours[item["class"]], "edgecolor": "white", "linewidth": 0.4}
        axes.add_patch(Rectangle(place, width, size / scale, **box))
        if width * size > _NAMED_AREA * steps * height and width > 0.05 * steps:
            middle = item["first"] + width / 2, (item["offset"] + size / 2) / scale
            axes.text(*middle, _short(item, int(110 * width / steps)), ha="center", va="center", fontsize=7)
    if alive:
        axes.stairs([size / scale for size in alive], range(steps + 1), color="black", label="in use", linewidth=1.2)
    lines = ((program.arena_bytes, "-", "arena"), (facts["lower_bound"], "--", "lower bound of any plan"))
    for size, style, what in lines:
        label = f"{what}: {size / scale:.3g} {unit}"
        axes.axhline(size / scale, color="firebrick", linestyle=style, linewidth=1, label=label)
    axes.set(xlim=(0, steps), ylim=(0, 1.03 * height / scale), xlabel="step", ylabel=f"offset in the arena, {unit}")
    handles = [Patch(color=colours[kind], label=kind) for kind in kinds]
    axes.legend(
        handles=[*handles, *axes.get_legend_handles_labels()[0]], fontsize=8, loc="upper left", bbox_to_anchor=(1, 1)
    )
    # Without a date and with a fixed salt, equal programs give equal files.
    is_svg = os.fspath(path).endswith(".svg")
    with mpl.rc_context({"svg.hashsalt": "stepwell"}):
        figure.savefig(path, dpi=110, metadata={"Date": None} if is_svg else None)


def _short(item: dict[str, Any], most: int) -> str:
    """Shortens a name to `most` characters; keeps the end, which is more informative."""
    name = item["node"] or item["class"]
    return name if len(name) <= most else f"...{name[-max(most - 3, 1) :]}"
