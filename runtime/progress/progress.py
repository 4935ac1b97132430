"""Reports the progress of compiles: to a callback, and to the logger `stepwell` (docs/logging.md)."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace

from .bar import bar
from .events import Listener, Progress

_SLOW_SECONDS = 5.0
"""Compile time in seconds after which a warning is logged."""

logger = logging.getLogger("stepwell")
logger.addHandler(logging.NullHandler())


class CompileReporter:
    """One compile, whose events are reported.

    Attributes:
        event: the last event.
        listener: called with each event; None to report to the log only.
    """

    def __init__(self, listener: Listener | None, start: Progress) -> None:
        self.listener, self.event, self._start = listener, start, time.perf_counter()
        self._timer: threading.Timer | None = None
        self.is_hit = True

    def miss(self) -> None:
        """Records that the code is not in the cache; from here on the compile may take long."""
        self.is_hit = False
        self._warn_later("compiling")

    def wait(self) -> None:
        """Records that this compile waits for another process or thread that compiles the same code."""
        logger.info("%s: waiting for another process that compiles the same model", _where(self.event))
        self._warn_later("waiting for another process that compiles the same model")

    def wait_for_kernels(self) -> None:
        """Records that this compile waits for other processes or threads that compile kernels of this model."""
        logger.info("%s: waiting for another process that compiles the same kernels", _where(self.event))

    def _warn_later(self, doing: str) -> None:
        self.end()
        where, why = _where(self.event), self.event.why
        text = "%s: still %s after %g s (%s); see docs/dynamic_shapes.md and docs/cache.md for compiling ahead"
        self._timer = threading.Timer(_SLOW_SECONDS, logger.warning, (text, where, doing, _SLOW_SECONDS, why))
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Cancels the warning that the compile takes long."""
        if self._timer is not None:
            self._timer.cancel()

    def report(self, phase: str, done: int | None = None, total: int | None = None, step: str | None = None) -> None:
        """Reports an event; fields that are not given keep their values."""
        event = self.event
        self.event = replace(
            event,
            phase=phase,
            done=event.done if done is None else done,
            total=event.total if total is None else total,
            seconds=time.perf_counter() - self._start,
            step=event.step if step is None else step,
        )
        if self.listener is not None:
            self.listener(self.event)

    def relay(self, line: bytes) -> None:
        """Reports an event that `write_to` wrote in another process."""
        self.event = Progress(**json.loads(line))
        if self.listener is not None:
            self.listener(self.event)

    def write_to(self, write: Callable[[bytes], object]) -> None:
        """Writes further events as lines, for `relay` in another process."""
        self.listener = lambda event: write(json.dumps(asdict(event)).encode() + b"\n")

    @property
    def has_listener(self) -> bool:
        """True if events have a listener."""
        return self.listener is not None


# A context variable instead of state of a compile, because a tool follows all compiles of its calls, including those of
# models that it did not create, such as loaded ones.
_watcher: ContextVar[Listener | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(listener: Listener) -> Iterator[None]:
    """Reports all compiles inside the block to a listener, unless their options specify a callback of their own."""
    token = _watcher.set(listener)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def reporting(
    listener: Listener | bool | None, model: str, what: str, why: str, target: str = "cpu"
) -> Iterator[CompileReporter]:
    """Reports the start and the end of a compile, to a callback and to the log.

    Args:
        listener: the callback, as in `Options.progress`. An exception that it raises ends the compile.
        model: the model's name.
        what: the shapes or ranges of sizes of the code.
        why: why the code is needed.
        target: the name of the target.
    """
    made = CompileReporter(_listener_of(listener), Progress("start", model, what, why, target=target))
    where = _where(made.event)
    try:
        made.report("start")
        yield made
    except BaseException:
        made.end()
        made.report("failed")
        logger.info("%s: failed after %.2f s (%s)", where, made.event.seconds, why)
        raise
    finally:
        made.end()
    made.report("hit" if made.is_hit else "done")
    outcome = "from the cache" if made.is_hit else "compiled"
    logger.info("%s: %s in %.2f s (%s)", where, outcome, made.event.seconds, why)


def _listener_of(choice: Listener | bool | None) -> Listener | None:
    """Returns the callback that `Options.progress` selects."""
    if not isinstance(choice, bool) and choice is not None:
        return choice
    if choice is False:
        return None
    if _watcher.get() is not None:
        return _watcher.get()
    return bar(in_terminal=choice is True)


def _where(event: Progress) -> str:
    at = f" at {event.what}" if event.what else ""
    return f"{event.model}{at} for {event.target}"
