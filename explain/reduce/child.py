"""Trials: work in a process of its own, with a limit of time and of memory, of which files tell what came out."""

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

_LONGEST_NAP = 0.02
_SAID_BYTES = 1 << 16


@dataclass(frozen=True)
class Limits:
    """What a trial may take.

    Attributes:
        seconds: of time.
        megabytes: of memory, over what this process has.
    """

    seconds: float
    megabytes: int


@dataclass(frozen=True)
class Ended:
    """How a trial ended.

    Attributes:
        how: "done", "error" (an exception that the work did not expect), "crash", "time" or "memory".
        value: what the work gave, where it is done.
        kept: what the work had put aside before the end, whatever that was.
        at: what it was at.
        said: what it wrote to the standard error stream; of an error, the traceback.
        signal: the name of the signal that ended it.
    """

    how: str
    value: Any = None
    kept: Any = None
    at: str = ""
    said: str = ""
    signal: str = ""


class Desk:
    """What the work of a trial writes on, so that it is there even after a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, text: str) -> None:
        """Says what is about to be done."""
        (self.folder / "at").write_text(text)

    def keep(self, value: Any) -> None:
        """Puts something aside that is wanted however the trial ends."""
        (self.folder / "kept").write_bytes(pickle.dumps(value))


class Child:
    """Work that has been started."""

    def __init__(self, work: Callable[[Desk], Any], limits: Limits) -> None:
        self._limits, self._start = limits, time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="stepwell-reduce-")
        self._path = Path(self._folder.name)
        self._process = os.fork()
        if self._process == 0:
            _work_and_leave(work, self._path, limits)

    def wait(self) -> Ended:
        """How it ended; ended by force where it takes too long."""
        status, nap = self._poll(), 0.001
        while status is None:
            if time.monotonic() - self._start > self._limits.seconds:
                self._end()
                return self._ended("time")
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
            status = self._poll()
        if os.WIFSIGNALED(status):
            return self._ended("crash", signal.Signals(os.WTERMSIG(status)).name)
        return self._ended({0: "done", 2: "memory"}.get(os.WEXITSTATUS(status), "error"))

    def cancel(self) -> None:
        """Ends it, and forgets what it has done."""
        self._end()
        self._folder.cleanup()

    def _poll(self) -> int | None:
        process, status = os.waitpid(self._process, os.WNOHANG)
        return status if process else None

    def _end(self) -> None:
        # The group: a command that is the test has children of its own. It may not have been made yet.
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
            read("said")[-_SAID_BYTES:].decode(errors="replace"),
            signal_name,
        )
        self._folder.cleanup()
        return ended


def _work_and_leave(work: Callable[[Desk], Any], folder: Path, limits: Limits) -> None:
    """Ends the child without the interpreter's own farewell, which is the parent's to say."""
    code = 1
    try:
        os.setpgid(0, 0)
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(said, stream)
        faulthandler.disable()  # whose notes go to a stream of the parent's
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _bound_memory(limits.megabytes)
        data = pickle.dumps(work(Desk(folder)))
        (folder / "value").write_bytes(data)
        code = 0
    except MemoryError:
        code = 2
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _bound_memory(megabytes: int) -> None:
    pages = Path("/proc/self/statm")
    if not pages.exists():
        return  # no system that tells
    used = int(pages.read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), hard))
