"""Runs a tool's work in a child process, so that an abort inside MLIR ends in a message that names the pass.

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

from ..passes.infra.progress_note import SharedNote, signal_of, write_notes_to
from ..support import environment

if TYPE_CHECKING:
    from ..passes.infra.failure import Failure


_Handler = Callable[[int, FrameType | None], None]
"""A signal handler, as `signal.signal` takes it."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)
_GUARDED = "STEPWELL_GUARDED"
_ENDED_TEXT = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Supervisor:
    """Runs work in a child process, which notes its current step.

    Args:
        ends_as_child: whether a crash of the child ends this process too, by the same signal.

    Attributes:
        note: the child's current step, in shared memory.
    """

    def __init__(self, ends_as_child: bool = False) -> None:
        self.note = SharedNote()
        self._ends_as_child = ends_as_child

    def run(self, tool: str, work: Callable[[], int], again: Callable[[], int], crashed: Callable[[], None]) -> int:
        """Runs `work` in a child process and returns its exit code; 1, after a message, if it crashed.

        Args:
            tool: the tool's name in messages.
            work: does the work and returns the exit code.
            again: repeats the work without output and pass by pass, to find which of several passes crashed.
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
    """Ends this process by a signal, without another core dump."""
    import resource

    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def run_supervised(
    tool: str, work: Callable[[], int], target: str, print_record: Callable[[Mapping[str, Any]], None] | None
) -> int:
    """Runs a tool's work in a child process and returns its exit code; 1, after a report, if it crashed.

    Args:
        tool: the tool's name in messages.
        work: does the work and returns the exit code.
        target: the target that code is generated for.
        print_record: receives the record of a crash; None if none is requested.
    """
    if not hasattr(os, "fork"):
        return work()
    note = SharedNote()
    write_notes_to(note)
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
    if print_record is not None:
        print_record(
            {"schema": 1, "kind": "compile", "reason": reason, "crash": signal_of(status)}
            if failure is None
            else failure.record()
        )
    return 1


def was_told_to_end(status: int) -> bool:
    """Returns whether a child was terminated from outside, as at a shutdown of the system; that is not a crash."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in _PASSED_ON


def _ended(tool: str, status: int) -> int:
    number = os.WTERMSIG(status)
    print(f"{tool}: {_ENDED_TEXT[signal.Signals(number)]}", file=sys.stderr)
    return 128 + number


def _is_in_a_pass(note: SharedNote, status: int) -> bool:
    """Returns whether a process crashed in a pass, and was not killed."""
    return note.text != "" and os.WTERMSIG(status) != signal.SIGKILL


def _guarded(work: Callable[[], int]) -> int:
    """Runs work with each compile in a child process, so that a crash of a compile becomes an error."""
    os.environ[_GUARDED] = "1"
    return work()


def _known(work: Callable[[], int], note: SharedNote, status: int, target: str) -> Failure | None:
    """Returns facts about a crash in a pass, from a second, instrumented run."""
    if not _is_in_a_pass(note, status):
        return None
    from ..driver.failures.reproducers import explained_crash

    def reason() -> str:
        return f"native code {note.crash_of(status)}"

    def again(instrumented: Callable[[], int]) -> bool:
        return os.WIFSIGNALED(run_child(instrumented, is_quiet=True))

    return explained_crash(reason, signal_of(status), work, again, target)


def run_child(work: Callable[[], int], is_quiet: bool = False) -> int:
    """Runs work in a child process, which ends with its exit code; returns the wait status.

    A signal to end the parent is passed on to the child, and the parent waits for the child. If the child then crashes,
    as native code may if it is interrupted while it is loaded, the status returned is that of the signal.
    """
    received: list[int] = []
    children: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for child in children:
            _send(child, number)

    sys.stdout.flush()
    sys.stderr.flush()
    # Handlers are installed before the fork: a library's thread may receive a signal that this thread blocks.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    with _woken_by({signal.SIGINT: pass_on, signal.SIGTERM: pass_on, signal.SIGCHLD: _wake}) as reading:
        child = os.fork()
        if child == 0:
            _work_and_leave(work, is_quiet, mask)
        for number in received:
            _send(child, number)
        children.append(child)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = _wait(child, reading)
    return received[0] if received and os.WIFSIGNALED(status) else status


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # the process has just ended
        os.kill(process, number)


def _wake(number: int, frame: FrameType | None) -> None:
    """Does nothing: the signal only ends a wait."""


@contextlib.contextmanager
def _woken_by(handlers: Mapping[int, _Handler]) -> Iterator[int]:
    """Installs signal handlers, and yields a file that becomes readable with each signal.

    Python runs handlers between its own instructions. The handler of a signal that arrives just before a blocking
    system call runs when that call returns, which may be never. A call that waits for this file returns.
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
    """Raises KeyboardInterrupt once: the terminal interrupts parent and child, and the parent passes it on too."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _work_and_leave(work: Callable[[], int], is_quiet: bool, mask: set[int]) -> None:
    """Runs work and ends the child without Python's shutdown, which destroys MLIR's objects in any order."""
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
    except BaseException as error:  # the child must not return into the parent's code
        traceback.print_exception(error)
    finally:
        sys.stderr.flush()
        os._exit(code)
