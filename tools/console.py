"""Printing for the end-user tools: tables, and a progress bar if stderr is a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..runtime.progress import bar
from ..runtime.progress import progress as events


def shows_bars(options: argparse.Namespace) -> bool:
    """Returns whether progress bars are shown: stderr is a terminal, and neither `--quiet` nor `--json` is given."""
    return sys.stderr.isatty() and not (options.quiet or options.json)


class ProgressBar:
    """A progress bar that advances with every step."""

    def __init__(self, progress: Progress, task) -> None:
        self._progress, self._task = progress, task

    def next(self, text: str) -> None:
        """Finishes the current step and shows the text of the next one."""
        self._progress.update(self._task, advance=1, description=text)


class Compiles:
    """A line below a progress bar for the current compile: its phase, then kernels done of kernels to do."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def __call__(self, event: events.Progress) -> None:
        """Shows an event of a compile."""
        if event.phase == "start":
            return  # the code may be in the cache
        if event.has_ended:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = None
            return
        if self._task is None:
            self._task = self._progress.add_task("", total=None, rest="")
        self._progress.update(
            self._task,
            description=bar.described(event),
            total=event.total or None,
            completed=event.done,
            rest=bar.counted(event),
        )


@contextmanager
def progress(options: argparse.Namespace, text: str, total: int | None = None) -> Iterator[ProgressBar]:
    """A bar on stderr while the work runs, with a line for each compile in it, if `shows_bars`."""
    is_shown = shows_bars(options)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rest]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as bar:
        # The first step starts at once, so that it is counted when the second begins.
        steps = ProgressBar(bar, bar.add_task(text, total=total, completed=-1, rest=""))
        with events.watched_by(Compiles(bar)) if is_shown else nullcontext():
            yield steps


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """Prints a table on stdout; the columns in `numbers` are aligned to the right."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in headers:
        table.add_column(header, justify="right" if header in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=line_width() or 10_000, highlight=False).print(table)


def line_width() -> int | None:
    """Returns the width of the terminal; None if stdout is a file or a pipe, whose lines may have any length."""
    return Console().width if sys.stdout.isatty() else None


@contextmanager
def status(options: argparse.Namespace, text: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr with the current activity and its duration, if `shows_bars`."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not shows_bars(options)) as bar:
        task = bar.add_task(text, total=None)
        yield lambda text: bar.update(task, description=text)
