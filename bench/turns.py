"""Runs systems in child processes, which take turns on the same cores.

A process is stopped (SIGSTOP) except during its turn, so that no spinning thread pool takes time from the running one.
Each process is pinned, with all its threads, to as many cores as a call may use threads.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..passes.infra.discovery import LOADED
from ..support.errors import StepwellError
from .machine import cores, cpus

SECONDS_TO_START = 300.0
CALLS_AT_MOST = 2000
# Without -m: objects that the worker sends must be of the module's classes, not of those of __main__.
_MAIN = "import sys; from stepwell.bench.worker import main; main(sys.argv[1:])"


class SystemFailure(StepwellError):
    """Raised if a system fails; the message is the reason in one line."""


class SystemProcess(AbstractContextManager["SystemProcess"]):
    """A process for one system; it is stopped between requests.

    Attributes:
        is_idle: whether it has answered all requests.
    """

    is_idle = True

    def __init__(self, allowed: Sequence[int], threads: int) -> None:
        """Starts the process.

        Args:
            allowed: the CPUs that it may run on.
            threads: number of threads for libraries that read it from the environment.
        """
        here, there = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        command = [sys.executable, "-c", _MAIN, str(there.fileno())]
        command += [",".join(map(str, allowed)), str(threads), *LOADED]
        self._process = subprocess.Popen(
            command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        there.close()
        self._connection = Connection(here.detach())

    def ask(self, request: str, *arguments: Any, timeout: float = SECONDS_TO_START) -> Any:
        """Wakes the process, sends a request, waits for the answer, and stops the process again.

        Raises:
            Failure: the system failed, the process ended, or there is no answer in time.
        """
        self.is_idle = False
        self._process.send_signal(signal.SIGCONT)
        try:
            self._connection.send((request, arguments))
            if not self._connection.poll(timeout):
                raise SystemFailure(f"no answer within {timeout:.0f} s")
            status, result = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise SystemFailure(self._why_it_ended()) from None
        self._process.send_signal(signal.SIGSTOP)
        self.is_idle = True
        if status == "failed":
            raise SystemFailure(result)
        return result

    def close(self) -> None:
        """Ends the process."""
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._log.close()

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _why_it_ended(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"the process {how}{': ' + lines[-1][:200] if lines else ''}"


def pinned(threads: int) -> SystemProcess:
    """Creates a worker that is pinned to as many cores as a call may use threads."""
    return SystemProcess(cores()[:threads], threads)


def free(threads: int) -> SystemProcess:
    """Creates a worker on all cores available to this process."""
    return SystemProcess(cpus(), threads)


def take_turns(workers: Mapping[str, SystemProcess], seconds: float, times: dict[str, list[float]]) -> dict[str, str]:
    """Runs one round: every worker calls its session for about `seconds`, one after the other.

    Args:
        workers: the workers by system.
        seconds: duration of a turn.
        times: times of the calls by system, to which the new ones are added.

    Returns:
        The reasons why systems did not finish their turn.
    """
    reasons = {}
    for name, worker in workers.items():
        try:
            times[name] += worker.ask("turn", seconds, CALLS_AT_MOST)
        except SystemFailure as failure:
            reasons[name] = str(failure)
    return reasons


def folder_for(root: Path, *names: str) -> Path:
    """Returns a folder below `root`, which is created if needed."""
    path = root.joinpath(*(name.replace("/", "_") for name in names))
    path.mkdir(parents=True, exist_ok=True)
    return path
