"""Trials: work in a child process with limits of time and memory, which returns its results in files."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAX_POLL_SECONDS = 0.02
"""Longest time between looks at a trial in seconds: a choice, short beside a compile."""
_MAX_STDERR_BYTES = 1 << 16
"""Bytes that are kept of the end of what a trial printed: a choice; the failure is in the last lines."""


@dataclass(frozen=True)
class Limits:
    """The limits of a trial.

    Attributes:
        seconds: time in seconds.
        megabytes: memory in megabytes, in addition to that of this process.
    """

    seconds: float
    megabytes: int


@dataclass(frozen=True)
class Ended:
    """The end of a trial.

    Attributes:
        how: "done", "error" (an unexpected exception), "crash", "time" or "memory".
        value: the result of the work if it is done.
        kept: the value that the work had saved before the end.
        at: the step that the work had noted last.
        output: its output on the standard error stream; for an error, the traceback.
        signal: the name of the signal that ended it.
    """

    how: str
    value: Any = None
    kept: Any = None
    at: str = ""
    output: str = ""
    signal: str = ""


class Desk:
    """The interface by which the work of a trial stores results that must survive a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, text: str) -> None:
        """Notes the next step."""
        (self.folder / "at").write_text(text)

    def keep(self, value: Any) -> None:
        """Saves a value that is needed however the trial ends."""
        (self.folder / "kept").write_bytes(pickle.dumps(value))


class Child:
    """A started trial."""

    def __init__(self, work: Callable[[Desk], Any], limits: Limits) -> None:
        self._limits, self._start = limits, time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="stepwell-reduce-")
        self._path = Path(self._folder.name)
        self._process = os.fork()
        if self._process == 0:
            _work_and_leave(work, self._path, limits)

    def wait(self) -> Ended:
        """Waits for the end of the trial; kills it after the time limit."""
        status, nap = self._poll(), 0.001
        while status is None:
            if time.monotonic() - self._start > self._limits.seconds:
                self._end()
                return self._ended("time")
            time.sleep(nap)
            nap = min(2 * nap, _MAX_POLL_SECONDS)
            status = self._poll()
        if os.WIFSIGNALED(status):
            return self._ended("crash", signal.Signals(os.WTERMSIG(status)).name)
        return self._ended({0: "done", 2: "memory"}.get(os.WEXITSTATUS(status), "error"))

    def cancel(self) -> None:
        """Kills the trial and discards its results."""
        self._end()
        self._folder.cleanup()

    def _poll(self) -> int | None:
        process, status = os.waitpid(self._process, os.WNOHANG)
        return status if process else None

    def _end(self) -> None:
        # The process group, as a test command has child processes; the group may not exist yet.
        for end in (os.killpg, os.kill):
            try:
                end(self._process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        os.waitpid(self._process, 0)

    def _ended(self, how: str, signal_name: str = "") -> Ended:
        def read(name: str) -> bytes:
            path = self._path / name
            return path.read_bytes() if path.exists() else b""

        value, kept = read("value"), read("kept")
        ended = Ended(
            how,
            pickle.loads(value) if value and how == "done" else None,
            pickle.loads(kept) if kept else None,
            read("at").decode(),
            read("output")[-_MAX_STDERR_BYTES:].decode(errors="replace"),
            signal_name,
        )
        self._folder.cleanup()
        return ended


def _work_and_leave(work: Callable[[Desk], Any], folder: Path, limits: Limits) -> None:
    """Runs the work and ends the child without the interpreter's shutdown, which belongs to the parent."""
    code = 1
    try:
        os.setpgid(0, 0)
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(output, stream)
        faulthandler.disable()  # its stream belongs to the parent
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _limit_memory(limits.megabytes)
        data = pickle.dumps(work(Desk(folder)))
        (folder / "value").write_bytes(data)
        code = 0
    except MemoryError:
        code = 2
    except BaseException:  # the parent reads the traceback as the reason
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _limit_memory(megabytes: int) -> None:
    pages = Path("/proc/self/statm")
    if not pages.exists():
        return  # the system does not report memory
    used = int(pages.read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), hard))
