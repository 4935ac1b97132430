"""Work in a process of its own, for what native code may abort on: an assertion of MLIR's, or a stack that overflows.

Used where the work is a stranger's and not on the ordinary way of a compile: MLIR written by hand, and ONNX's own
inference of models that are not compiled whole.
"""

from __future__ import annotations

import mmap
import os
import signal
import tempfile
from collections.abc import Callable

_NOTE_BYTES = 4096
_TOLD_BYTES = 300

Note = Callable[[str], None]


class SharedNote:
    """A line of text that outlives the process that writes it: what a child was at when it ended."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NOTE_BYTES)

    def __call__(self, text: str) -> None:
        """Remembers what is about to be done."""
        self._memory[:] = text.encode()[:_NOTE_BYTES].ljust(_NOTE_BYTES, b"\0")

    def crash_of(self, status: int) -> str:
        """How a child ended, by its wait status: the signal, and what it was at; "" where it was no crash."""
        if not os.WIFSIGNALED(status):
            return ""
        at = self._memory[:].rstrip(b"\0").decode(errors="replace")
        return f"crashed ({signal.Signals(os.WTERMSIG(status)).name}){f' in {at}' if at else ''}"


class Crash(Exception):
    """Native code ended the process that did the work; the message says how, and what it was at."""


def guarded(work: Callable[[Note], bytes]) -> bytes | None:
    """What `work` gives; None where it raised an exception.

    Args:
        work: done in a child process, of which nothing is left but the bytes that it gives. It may note what it is at.

    Raises:
        Crash: a signal ended it.
    """
    if not hasattr(os, "fork"):  # no such thing as a copy of this process
        return work(lambda text: None)
    note = SharedNote()
    with tempfile.TemporaryFile() as told:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _work_and_leave(lambda: work(note), writing, told.fileno())
        os.close(writing)
        with open(reading, "rb") as stream:
            data = stream.read()
        status = os.waitpid(child, 0)[1]
        if crash := note.crash_of(status):
            told.seek(0)
            said = told.read()[-_TOLD_BYTES:].decode(errors="replace").strip().splitlines()
            raise Crash(f"native code {crash}{f': {said[-1]}' if said else ''}")
    return data if status == 0 else None


def _work_and_leave(work: Callable[[], bytes], writing: int, told: int) -> None:
    """Ends the child without the interpreter's own farewell, which is the parent's to say."""
    code = 1
    try:
        os.dup2(told, 2)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        data = work()
        with open(writing, "wb") as stream:
            stream.write(data)
        code = 0
    except Exception:  # the parent does the work again where it needs to know
        code = 1
    finally:
        os._exit(code)
