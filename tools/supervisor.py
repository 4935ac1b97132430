"""Runs a tool's work in a process of its own, so that an abort inside MLIR ends in a message that names the pass.

The wheel's LLVM checks its assertions: IR that a pass did not expect can abort the process from inside C++, where no
Python handler runs.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

from ..passes.guarded import SharedNote


class Supervisor:
    """Does work in a child process, which leaves a note of what it is at.

    Attributes:
        note: where it does.
    """

    def __init__(self) -> None:
        self.note = SharedNote()

    def run(self, tool: str, work: Callable[[], int]) -> int:
        """Does `work` and returns its exit code; 1, after a message, where it crashed."""
        if not hasattr(os, "fork"):
            return work()
        child = os.fork()
        if child == 0:
            _work_and_leave(work)
        status = os.waitpid(child, 0)[1]
        crash = self.note.crash_of(status)
        if not crash:
            return os.WEXITSTATUS(status)
        print(f"{tool}: error: MLIR {crash}", file=sys.stderr)
        return 1


def _work_and_leave(work: Callable[[], int]) -> None:
    """Ends the child without the interpreter's own farewell, in which MLIR's objects have no order."""
    code = 1
    try:
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException as error:
        traceback.print_exception(error)
    finally:
        sys.stderr.flush()
        os._exit(code)
