"""Work in a process of its own, for what native code may abort on: an assertion of MLIR's, or a stack that overflows.

Used where the work is a stranger's and not on the ordinary way of a compile: MLIR written by hand, and ONNX's own
inference of models that are not compiled whole.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .base import PassError
from .note import SharedNote, signal_of

_TOLD_CHARACTERS = 300

Note = Callable[[str], None]


class Crash(Exception):
    """Native code ended the process that did the work; the message says how, and what it was at."""

    def __init__(self, message: str, signal_name: str) -> None:
        super().__init__(message)
        self.signal_name = signal_name


class CompilerCrash(PassError):
    """Native code crashed in a compile: an assertion of LLVM's, or a stack that overflowed.

    Attributes:
        signal_name: the signal that ended the process.
        folder: where the process has left how far it had come (`passes/recorder.py`); None where it has not.
    """

    def __init__(self, message: str, signal_name: str, folder: Path | None = None) -> None:
        super().__init__(message)
        self.signal_name, self.folder = signal_name, folder


def last_line(told: bytes) -> str:
    """The last thing that native code said: what was asserted, or that the stack overflowed."""
    lines = told.decode(errors="replace").strip().splitlines()
    asserted = [line for line in lines if "Assertion `" in line]
    return (asserted or lines or [""])[-1][-_TOLD_CHARACTERS:]


def crash_text(signal_name: str, at: str, said: str) -> str:
    """The message of a crash."""
    return _with(f"native code crashed ({signal_name}){f' in {at}' if at else ''}", said)


def _with(text: str, said: str) -> str:
    return f"{text}: {said}" if said else text


def guarded(work: Callable[[Note], bytes], is_loud: bool = False) -> bytes | None:
    """What `work` gives; None where it raised an exception.

    Args:
        work: done in a child process, of which nothing is left but the bytes that it gives. It may note what it is at.
        is_loud: whether what it says on the standard error stream is passed on, where it does not crash.

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
            raise Crash(_with(f"native code {crash}", last_line(told.read())), signal_of(status))
        if is_loud:
            told.seek(0)
            sys.stderr.write(told.read().decode(errors="replace"))
    return data if status == 0 else None


def _work_and_leave(work: Callable[[], bytes], writing: int, told: int) -> None:
    """Ends the child without the interpreter's own farewell, which is the parent's to say."""
    code = 1
    try:
        os.dup2(told, 2)
        faulthandler.disable()  # a crash is the parent's to tell
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        data = work()
        with open(writing, "wb") as stream:
            stream.write(data)
        code = 0
    except Exception:  # the parent does the work again where it needs to know
        code = 1
    finally:
        os._exit(code)
