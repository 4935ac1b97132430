"""A progress bar for compiles that take longer than a second, in notebooks and terminals (docs/logging.md)."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Protocol

from .events import Listener, Progress

DELAY = 1.0
"""Seconds before the bar of a compile appears."""

_INTERVAL = 0.5
"""Seconds between two updates of a bar."""


class Surface(Protocol):
    """Displays a bar drawn by `rich`."""

    def show(self, drawn: Any) -> None:
        """Shows the bar."""

    def update(self) -> None:
        """Redraws the bar."""

    def hide(self) -> None:
        """Removes the bar."""


class Notebook:
    """The output of the running notebook cell; needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn: Any = None

    def show(self, drawn: Any) -> None:
        """See `Surface`."""
        self._drawn = drawn
        self._handle = sys.modules["IPython"].display.display(drawn, display_id=True)

    def update(self) -> None:
        """See `Surface`."""
        self._handle.update(self._drawn)

    def hide(self) -> None:
        """See `Surface`."""
        self._handle.update({"text/plain": "", "text/html": ""}, raw=True)


class Terminal:
    """The terminal of the standard error stream."""

    def __init__(self) -> None:
        self._drawn: Any = None

    def show(self, drawn: Any) -> None:
        """See `Surface`."""
        self._drawn = drawn
        drawn.start()

    def update(self) -> None:
        """See `Surface`."""
        self._drawn.refresh()

    def hide(self) -> None:
        """See `Surface`."""
        self._drawn.stop()


class Bar:
    """A callback for compiles, one at a time: shows a bar after `DELAY` seconds, and removes it at the end.

    Args:
        surface: displays the bar.
    """

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._event: Progress | None = None
        self._start = 0.0

    def __call__(self, event: Progress) -> None:
        """Handles an event."""
        self._event = event
        if event.phase == "start":
            self._start = time.perf_counter() - event.seconds
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, name="stepwell progress bar", daemon=True)
            self._thread.start()
        elif event.has_ended and self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        if self._ended.wait(DELAY):
            return
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Drawn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rest]}"))
        # A notebook's output is not a stream: the surface renders the bar.
        drawn = Drawn(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        task = drawn.add_task("", total=None, rest="")
        self._draw(drawn, task)
        self._surface.show(drawn)
        try:
            while not self._ended.wait(_INTERVAL):
                self._draw(drawn, task)
                self._surface.update()
        finally:
            self._surface.hide()

    def _draw(self, drawn: Any, task: Any) -> None:
        assert self._event is not None
        seconds = f"{time.perf_counter() - self._start:.0f} s"
        count = counted(self._event)
        rest = f"{count}, {seconds}" if count else seconds
        total = self._event.total or None
        drawn.update(task, description=described(self._event), total=total, completed=self._event.done, rest=rest)


def described(event: Progress) -> str:
    """Returns the model and shapes that are compiled, and the phase that the compile has passed."""
    at = f" at {event.what}" if event.what else ""
    after = f", after {event.step}" if event.step and not event.total else ""
    # In rich's markup, brackets denote styles.
    return f"compiling {event.model}{at}{after}".replace("[", r"\[")


def counted(event: Progress) -> str:
    """Returns the number of compiled kernels and the total; "" before the total is known."""
    return f"{event.done}/{event.total} kernels" if event.total else ""


def is_notebook() -> bool:
    """Returns whether this process is an IPython kernel; does not import IPython."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


def bar(*, in_terminal: bool) -> Listener | None:
    """Returns the bar for this process: in notebooks, and in terminals if requested; None if nothing can display it."""
    if is_notebook():
        return Bar(Notebook())
    if in_terminal and sys.stderr is not None and sys.stderr.isatty():
        return Bar(Terminal())
    return None
