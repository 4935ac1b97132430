"""The live progress of a search in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..runtime.program import SHORT_NAME
from ..tuning.options import TuningOptions
from ..tuning.session import SearchProgress

_ROWS = 12
"""Number of kernels that are shown: a choice that fits a terminal."""


@contextmanager
def display(is_shown: bool, options: TuningOptions) -> Iterator[Callable[[SearchProgress], None]]:
    """Shows trials, the best schedule so far of each kernel, and the time left, on stderr."""
    if not is_shown:
        yield lambda progress: None
        return
    # Without a thread of its own: the search copies its process.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show(progress: SearchProgress) -> None:
            live.update(_view(progress, options), refresh=True)

        yield show


def _view(progress: SearchProgress, options: TuningOptions) -> Group:
    left = [f"{max(0.0, options.seconds - progress.seconds):.0f} s left"] if options.seconds is not None else []
    left += [f"of {options.trials}"] if options.trials is not None else []
    line = f"{progress.step}: {progress.trials} trials {', '.join(left)}; expected gain {progress.expected:.3f}"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, side in (
        ("kernel", "left"),
        ("nodes", "left"),
        ("share", "right"),
        ("trials", "right"),
        ("best", "right"),
    ):
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    for course in progress.courses[:_ROWS]:
        best = course.best
        table.add_row(
            course.kernel.name[:SHORT_NAME],
            ", ".join(course.kernel.info.ops[:1])[-40:],
            f"{course.share:.1%}",
            str(len(course.trials)),
            "default" if best is None else f"{best.gain:.3f}",
        )
    return Group(Text(line), table)
