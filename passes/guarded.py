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

from ..runtime import progress
from ..runtime.errors import StepwellError
from .base import PassError
from .note import SharedNote, signal_of

_TOLD_CHARACTERS = 300

Note = Callable[[str], None]


class Crash(StepwellError):
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


class Lines:
    """Lines that a child process writes while it works, and its parent hears."""

    def __init__(self, begin: Callable[[Callable[[bytes], object]], None], heard: Callable[[bytes], object]) -> None:
        """Names both ends.

        Args:
            begin: called in the child before it works, with the function that writes a line.
            heard: called in the parent with each line.
        """
        self._begin, self._heard = begin, heard
        self._reading, self._writing = -1, -1

    def open(self) -> None:
        """Opens the pipe, before the child starts."""
        self._reading, self._writing = os.pipe()

    def write(self, work: Callable[[], bytes]) -> bytes:
        """Does the work of the child, and closes the pipe when it is done."""
        os.close(self._reading)
        self._begin(lambda line: os.write(self._writing, line))
        try:
            return work()
        finally:
            os.close(self._writing)

    def hear(self) -> None:
        """Hears all that the child writes, until its work ends or it crashes."""
        os.close(self._writing)
        with open(self._reading, "rb") as stream:
            for line in stream:
                if line.endswith(b"\n"):  # else the child crashed while it wrote
                    self._heard(line)


def guarded(work: Callable[[Note], bytes], is_loud: bool = False, lines: Lines | None = None) -> bytes | None:
    """What `work` gives; None where it raised an exception.

    Args:
        work: done in a child process, of which nothing is left but the bytes that it gives. It may note what it is at.
        is_loud: whether what it says on the standard error stream is passed on, where it does not crash.
        lines: the pipe to which the child writes while it works. An exception from `heard` ends the child.

    Raises:
        Crash: a signal ended it.
    """
    if not hasattr(os, "fork"):  # no such thing as a copy of this process
        return work(lambda text: None)
    note = SharedNote()
    with tempfile.TemporaryFile() as told:
        reading, writing = os.pipe()
        if lines is not None:
            lines.open()
        child = os.fork()
        if child == 0:
            _work_and_leave(lambda: _in_child(work, note, lines), writing, told.fileno())
        os.close(writing)
        if lines is not None:
            _hear(lines, child, reading)
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


def _in_child(work: Callable[[Note], bytes], note: Note, lines: Lines | None) -> bytes:
    if lines is not None:
        return lines.write(lambda: work(note))
    progress.mute()  # the callbacks are the parent's
    return work(note)


def _hear(lines: Lines, child: int, reading: int) -> None:
    try:
        lines.hear()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        raise


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
