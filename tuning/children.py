"""Work in child processes, copies of this one: a crash, an error or a hang of a candidate costs only its time."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

from ..support.errors import StepwellError

Send = Callable[[Any], None]
"""Sends a value to the parent process."""

_MAX_MESSAGE_CHARACTERS = 300
"""Number of characters kept of an error, which the database stores with each failed trial: a choice."""


@dataclass(frozen=True)
class TrialFailure:
    """The end of a child that failed: an exception, a signal, or no end in time."""

    reason: str


class CandidateProcess:
    """A child process that sends values while it works."""

    def __init__(self, work: Callable[[Send], None], seconds: float) -> None:
        """Starts the child.

        Args:
            work: runs in the child; gets the function that sends values.
            seconds: time after which the child is killed, counted anew from every value that it sends.
        """
        context = multiprocessing.get_context("fork")
        self.connection, there = context.Pipe(duplex=False)
        self.process: ForkProcess = context.Process(target=_work, args=(work, there), daemon=True)
        self.process.start()
        there.close()
        self._seconds, self._deadline = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until the child is killed."""
        return max(0.0, self._deadline - time.monotonic())

    def receive(self) -> Any:
        """Returns the next value, a `TrialFailure`, or None after the child's end; blocks until there is one."""
        try:
            if not self.connection.poll(self.left):
                self.kill()
                return TrialFailure(f"no result within {self._seconds:.0f} s")
            value = self.connection.recv()
        except EOFError:
            self.process.join()
            return self._end()
        self._deadline = time.monotonic() + self._seconds
        return value

    def _end(self) -> TrialFailure | None:
        code = self.process.exitcode or 0
        self.connection.close()
        if code == 0:
            return None
        if code < 0:
            return TrialFailure(f"crashed: {signal.Signals(-code).name}")
        return TrialFailure(f"ended with exit code {code}")

    def kill(self) -> None:
        """Ends the child."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def values_of(work: Callable[[Send], None], seconds: float) -> Iterator[Any]:
    """Yields what a child sends; a `TrialFailure` is the last value if the child fails."""
    child = CandidateProcess(work, seconds)
    try:
        while (value := child.receive()) is not None:
            yield value
            if isinstance(value, TrialFailure):
                return
    finally:
        if child.process.is_alive():
            child.kill()


def each(
    items: Sequence[Any], work: Callable[[Any], Any], processes: int, seconds: float
) -> Iterator[tuple[int, Any | TrialFailure]]:
    """Yields the number and the result of `work` on each item, as children finish them.

    A child works on several items; after a failure, another one continues with the rest.

    Args:
        items: the items.
        work: runs in a child; an exception becomes a `TrialFailure`.
        processes: number of children.
        seconds: maximum time for an item.
    """
    shares = [share for number in range(processes) if (share := list(range(len(items)))[number::processes])]
    running: dict[Connection, tuple[CandidateProcess, list[int]]] = {}

    def start(share: list[int]) -> None:
        if share:
            child = CandidateProcess(lambda send: _share(items, share, work, send), seconds)
            running[child.connection] = child, share

    try:
        for share in shares:
            start(share)
        while running:
            limit = min(child.left for child, _ in running.values())
            ready = wait(list(running), timeout=limit) or [min(running, key=lambda key: running[key][0].left)]
            for connection in ready:
                child, share = running[connection]  # type: ignore[index]  # a connection of ours
                value = child.receive()
                if value is None or isinstance(value, TrialFailure):
                    del running[connection]  # type: ignore[arg-type]
                    if share and isinstance(value, TrialFailure):
                        yield share[0], value
                        start(share[1:])
                else:
                    del share[0]
                    yield value
    finally:
        for child, _ in running.values():
            child.kill()


def _share(items: Sequence[Any], share: Sequence[int], work: Callable[[Any], Any], send: Send) -> None:
    for number in list(share):
        try:
            result = work(items[number])
        except StepwellError as error:
            result = TrialFailure(" ".join(str(error).split())[:_MAX_MESSAGE_CHARACTERS])
        send((number, result))


def _work(work: Callable[[Send], None], connection: Connection) -> None:
    """Does the work of a child, without its parent's handlers and output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends its children
    faulthandler.disable()  # the parent reports crashes
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    work(connection.send)
    connection.close()
