"""What the end-user tools print with: tables, and a progress bar where a person watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


class Steps:
    """A progress bar that is told of every step."""

    def __init__(self, progress: Progress, task) -> None:
        self._progress, self._task = progress, task

    def next(self, text: str) -> None:
        """Says what is being done from here on; what was before is finished."""
        self._progress.update(self._task, advance=1, description=text)


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Steps]:
    """A bar on stderr for as long as the work takes; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        # The first step starts at once, so that it is counted when the second begins.
        yield Steps(bar, bar.add_task(text, total=total, completed=-1))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Prints a table on stdout; the columns in `numbers` are aligned to the right."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in headers:
        table.add_column(header, justify="right" if header in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    # A file or a pipe has no width: lines are as long as they need to be.
    Console(width=None if sys.stdout.isatty() else 10_000, highlight=False).print(table)


def duration(seconds: float) -> str:
    """A time in the unit that keeps it short."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        number = seconds * factor
        if number >= 1 or unit == "us":
            # From here on three digits would be written with an exponent.
            return f"{number:.3g} {unit}" if number < 999.5 else f"{number:.0f} {unit}"
    return ""


@contextmanager
def status(text: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is going on, and for how long; nothing where stderr is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(text, total=None)
        yield lambda text: bar.update(task, description=text)
