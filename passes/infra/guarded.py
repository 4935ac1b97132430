"""Runs work in a child process if native code may abort in it: an MLIR assertion, or a stack overflow.

Used for foreign input that is not part of an ordinary compile: MLIR written by hand, and ONNX's own shape inference of
models that are not compiled as a whole.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ...support.errors import StepwellError
from .base import PassError
from .progress_note import SharedNote, signal_of

_MAX_MESSAGE_CHARACTERS = 300
"""Number of characters kept of a message: an assertion with its file and line fits, the text of a large op does not."""

Note = Callable[[str], None]


class Crash(StepwellError):
    """Native code ended the process that did the work; the message gives the signal and the work in progress."""

    def __init__(self, message: str, signal_name: str) -> None:
        super().__init__(message)
        self.signal_name = signal_name


class CompilerCrash(PassError):
    """Native code crashed in a compile: an assertion of LLVM's, or a stack overflow.

    Attributes:
        signal_name: the signal that ended the process.
        folder: the folder with the progress that the process recorded (recorder.py); None if there is none.
    """

    def __init__(self, message: str, signal_name: str, folder: Path | None = None) -> None:
        super().__init__(message)
        self.signal_name, self.folder = signal_name, folder


def last_line(output: bytes) -> str:
    """The last line that native code printed: the failed assertion, or the stack overflow."""
    lines = output.decode(errors="replace").strip().splitlines()
    asserted = [line for line in lines if "Assertion `" in line]
    return (asserted or lines or [""])[-1][-_MAX_MESSAGE_CHARACTERS:]


def crash_text(signal_name: str, message: str) -> str:
    """The message of a crash."""
    return _with_message(f"native code crashed ({signal_name})", message)


def _with_message(text: str, message: str) -> str:
    return f"{text}: {message}" if message else text


class Lines:
    """A pipe for lines that a child process writes while it works and that its parent reads."""

    def __init__(self, begin: Callable[[Callable[[bytes], object]], None], heard: Callable[[bytes], object]) -> None:
        """Sets the functions at both ends.

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
        """Does the work of the child, then closes the pipe."""
        os.close(self._reading)
        self._begin(lambda line: os.write(self._writing, line))
        try:
            return work()
        finally:
            os.close(self._writing)

    def hear(self) -> None:
        """Reads all lines of the child until its work ends or it crashes."""
        os.close(self._writing)
        with open(self._reading, "rb") as stream:
            for line in stream:
                if line.endswith(b"\n"):  # otherwise the child crashed while writing the line
                    self._heard(line)


def guarded(work: Callable[[Note], bytes], is_loud: bool = False, lines: Lines | None = None) -> bytes | None:
    """The result of `work`; None if it raised an exception.

    Args:
        work: runs in a child process, which returns only its bytes. It gets a function that notes progress.
        is_loud: whether to copy the child's standard error output to this process, unless the child crashes.
        lines: the pipe to which the child writes while it works. An exception from `heard` kills the child.

    Raises:
        Crash: a signal ended the child.
    """
    if not hasattr(os, "fork"):  # the platform cannot copy this process
        return work(lambda text: None)
    note = SharedNote()
    with tempfile.TemporaryFile() as output:
        reading, writing = os.pipe()
        if lines is not None:
            lines.open()
        child = os.fork()
        if child == 0:
            _work_and_leave(lambda: _in_child(work, note, lines), writing, output.fileno())
        os.close(writing)
        if lines is not None:
            _hear(lines, child, reading)
        with open(reading, "rb") as stream:
            data = stream.read()
        status = os.waitpid(child, 0)[1]
        if crash := note.crash_of(status):
            output.seek(0)
            raise Crash(_with_message(f"native code {crash}", last_line(output.read())), signal_of(status))
        if is_loud:
            output.seek(0)
            sys.stderr.write(output.read().decode(errors="replace"))
    return data if status == 0 else None


def _in_child(work: Callable[[Note], bytes], note: Note, lines: Lines | None) -> bytes:
    return work(note) if lines is None else lines.write(lambda: work(note))


def _hear(lines: Lines, child: int, reading: int) -> None:
    try:
        lines.hear()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        raise


def _work_and_leave(work: Callable[[], bytes], writing: int, output: int) -> None:
    """Does the child's work and exits without the interpreter's cleanup, which belongs to the parent."""
    code = 1
    try:
        os.dup2(output, 2)
        faulthandler.disable()  # the parent reports crashes
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        data = work()
        with open(writing, "wb") as stream:
            stream.write(data)
        code = 0
    except Exception:  # the parent repeats the work if it needs the exception
        code = 1
    finally:
        os._exit(code)
