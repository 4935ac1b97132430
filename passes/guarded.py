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

_NOTE_BYTES = 1024
_TOLD_BYTES = 300

Note = Callable[[str], None]


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
    at = mmap.mmap(-1, _NOTE_BYTES)

    def note(text: str) -> None:
        at[:] = text.encode()[:_NOTE_BYTES].ljust(_NOTE_BYTES, b"\0")

    with tempfile.TemporaryFile() as told:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _work_and_leave(lambda: work(note), writing, told.fileno())
        os.close(writing)
        with open(reading, "rb") as stream:
            data = stream.read()
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            where = at[:].rstrip(b"\0").decode(errors="replace")
            told.seek(0)
            said = told.read()[-_TOLD_BYTES:].decode(errors="replace").strip().splitlines()
            name = signal.Signals(os.WTERMSIG(status)).name
            raise Crash(
                f"native code crashed ({name}){f' in {where}' if where else ''}{f': {said[-1]}' if said else ''}"
            )
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
