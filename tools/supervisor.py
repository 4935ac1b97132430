"""Runs a tool's work in a process of its own, so that an abort inside MLIR ends in a message that names the pass.

The wheel's LLVM checks its assertions: IR that a pass did not expect can abort the process from inside C++, where no
Python handler runs.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..passes.note import SharedNote, note_in, signal_of
from ..runtime import environment

if TYPE_CHECKING:
    from ..passes.failure import Failure


Handler = Callable[[int, FrameType | None], None]
"""A handler of signals, as `signal.signal` takes it."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)
_GUARDED = "STEPWELL_GUARDED"
_SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Supervisor:
    """Does work in a child process, which leaves a note of what it is at.

    Args:
        ends_as_child: whether a crash of the child ends this process too, by the same signal.

    Attributes:
        note: where it does.
    """

    def __init__(self, ends_as_child: bool = False) -> None:
        self.note = SharedNote()
        self._ends_as_child = ends_as_child

    def run(self, tool: str, work: Callable[[], int], again: Callable[[], int], crashed: Callable[[], None]) -> int:
        """Does `work` and returns its exit code; 1, after a message, where it crashed.

        Args:
            tool: its name in messages.
            work: what it does.
            again: does the same without output, one pass after the other, to tell which of several has crashed.
            crashed: called after a crash, before this process may end.
        """
        if not hasattr(os, "fork"):
            return work()
        status = run_child(work)
        if was_told_to_end(status):
            return _ended(tool, status)
        crash = self.note.crash_of(status)
        if not crash:
            return os.WEXITSTATUS(status)
        if "," in self.note.text:
            crash = self.note.crash_of(run_child(again, is_quiet=True)) or crash
        print(f"{tool}: error: MLIR {crash}", file=sys.stderr)
        crashed()
        if self._ends_as_child:
            _end_by(os.WTERMSIG(status))
        return 1


def _end_by(number: int) -> None:
    """Ends this process by a signal, without another dump of its memory."""
    import resource

    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def run_supervised(
    tool: str, work: Callable[[], int], target: str, tell: Callable[[Mapping[str, Any]], None] | None
) -> int:
    """Does a tool's work and returns its exit code; 1, after all that is known of it, where it crashed.

    Args:
        tool: its name in messages.
        work: what it does.
        target: what it makes code for.
        tell: given the record of a crash; None where nobody asked for it.
    """
    if not hasattr(os, "fork"):
        return work()
    note = SharedNote()
    note_in(note)
    status = run_child(work)
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    if was_told_to_end(status):
        return _ended(tool, status)
    if _is_in_a_pass(note, status) and not environment.is_guarded():
        # A crash in a pass has the same result as an exception: an error, or a node on the host.
        status = run_child(lambda: _guarded(work))
        if not os.WIFSIGNALED(status):
            return os.WEXITSTATUS(status)
        if was_told_to_end(status):
            return _ended(tool, status)
    reason = f"native code {note.crash_of(status)}"
    failure = _known(work, note, status, target)
    reason = reason if failure is None else failure.reason
    print("\n".join([f"{tool}: error: {reason}", *(failure.lines() if failure else [])]), file=sys.stderr)
    if tell is not None:
        tell(
            {"schema": 1, "kind": "compile", "reason": reason, "crash": signal_of(status)}
            if failure is None
            else failure.record()
        )
    return 1


def was_told_to_end(status: int) -> bool:
    """Whether somebody ended a child, as the system does with all processes before it shuts down; that is no crash."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in _PASSED_ON


def _ended(tool: str, status: int) -> int:
    number = os.WTERMSIG(status)
    print(f"{tool}: {_SAID[signal.Signals(number)]}", file=sys.stderr)
    return 128 + number


def _is_in_a_pass(note: SharedNote, status: int) -> bool:
    """Whether a process has crashed in a pass, and was not killed."""
    return note.text != "" and os.WTERMSIG(status) != signal.SIGKILL


def _guarded(work: Callable[[], int]) -> int:
    """Does work whose compiles are in processes of their own, so that their crashes are errors."""
    os.environ[_GUARDED] = "1"
    return work()


def _known(work: Callable[[], int], note: SharedNote, status: int, target: str) -> Failure | None:
    """Facts about a crash in a pass, from another, watched run."""
    if not _is_in_a_pass(note, status):
        return None
    from ..driver.failures import explained_crash

    def told() -> str:
        return f"native code {note.crash_of(status)}"

    def again(watched: Callable[[], int]) -> bool:
        return os.WIFSIGNALED(run_child(watched, is_quiet=True))

    return explained_crash(told, signal_of(status), work, again, target)


def run_child(work: Callable[[], int], is_quiet: bool = False) -> int:
    """Does work in a child process, which ends with its exit code; returns the wait status.

    What is told to end the parent ends the child, which the parent outlives. Where the child crashes of it, as native
    code may that is interrupted while it is loaded, the status is that of having been told.
    """
    told: list[int] = []
    children: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        told.append(number)
        for child in children:
            _send(child, number)

    sys.stdout.flush()
    sys.stderr.flush()
    # The handlers are installed before the fork: a thread of a library may receive what this thread has blocked.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    with _woken_by({signal.SIGINT: pass_on, signal.SIGTERM: pass_on, signal.SIGCHLD: _wake}) as reading:
        child = os.fork()
        if child == 0:
            _work_and_leave(work, is_quiet, mask)
        for number in told:
            _send(child, number)
        children.append(child)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = _wait(child, reading)
    return told[0] if told and os.WIFSIGNALED(status) else status


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(process, number)


def _wake(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing: the signal ends a wait."""


@contextlib.contextmanager
def _woken_by(handlers: Mapping[int, Handler]) -> Iterator[int]:
    """Installs handlers of signals, and yields a file that becomes readable with each signal.

    Python runs a handler between two instructions of its own: a handler of a signal that arrives just before a system
    call that blocks would run when that call returns, which may be never. A call that waits for the file returns.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    woken_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken_before)
        os.close(reading)
        os.close(writing)


def _wait(child: int, reading: int) -> int:
    """Returns the wait status of a child; handlers of signals run while it works."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        select.select([reading], [], [])
        os.read(reading, 4096)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """A terminal interrupts parent and child, and the parent passes it on: once is enough."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _work_and_leave(work: Callable[[], int], is_quiet: bool, mask: set[int]) -> None:
    """Ends the child without the interpreter's own farewell, in which MLIR's objects have no order."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, _interrupted)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if is_quiet:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as error:  # of argparse
        code = error.code if isinstance(error.code, int) else 1
        sys.stdout.flush()
    except BaseException as error:
        traceback.print_exception(error)
    finally:
        sys.stderr.flush()
        os._exit(code)
