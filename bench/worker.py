"""The process that one system runs in: it takes requests from a connection, and answers them one by one.

It pins itself to its CPUs before it imports anything that has threads.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

_PR_SET_PDEATHSIG = 1
_REASON_CHARACTERS = 240
# Long enough to be timed, too short for the clock to change.
_MOMENT = 1e-4
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Start:
    """How a system got ready.

    Attributes:
        seconds: from before its import to the first outputs.
        cpu_seconds: the processor time of all threads, and of processes that they waited for.
        outputs: what came out.
    """

    seconds: float
    cpu_seconds: float
    outputs: list[Any]


class Server:
    """Answers requests; the methods that have no underscore are what can be asked for."""

    def __init__(self) -> None:
        self._sessions: list[Any] = []
        self._job: Any = None
        self._system: Any = None
        self._resident = 0

    def open(self, system: str, job: Any) -> Start:
        """Makes the system ready for a job, instead of the one before."""
        from .peers import SYSTEMS

        self._sessions.clear()
        self._system, self._job, self._resident = SYSTEMS[system], job, _memory("VmRSS")
        start, cpu = time.perf_counter(), _cpu_seconds()
        self._sessions.append(self._system.open(job))
        outputs = self._sessions[0].outputs()
        return Start(time.perf_counter() - start, _cpu_seconds() - cpu, outputs)

    def turn(self, seconds: float, calls_at_most: int) -> list[float]:
        """See `timed_calls`."""
        return timed_calls(self._sessions[0].call, seconds, calls_at_most)

    def peak_then(self, seconds: float) -> float:
        """Operations per second of multiply-adds alone, right after calls: the median over so many seconds."""
        from ..runtime import peaks

        call, rate = self._sessions[0].call, peaks.multiply_adds()
        rates: list[float] = []
        end = time.perf_counter() + seconds
        while not rates or time.perf_counter() < end:
            call()
            rates.append(rate(_MOMENT))
        return statistics.median(rates)

    def throughput(self, sessions: int, seconds: float) -> float:
        """Calls per second of so many sessions at once, each called from a thread of its own."""
        while len(self._sessions) < sessions:
            self._sessions.append(self._system.open(self._job))
        counts, errors, clock = [0] * sessions, [], [0.0]
        # The clock starts when the first, slow call of every session is done.
        barrier = threading.Barrier(sessions, action=lambda: clock.__setitem__(0, time.perf_counter()))

        def run(index: int, call: Callable[[], object]) -> None:
            try:
                call()
                barrier.wait()
                while not counts[index] or time.perf_counter() < clock[0] + seconds:
                    call()
                    counts[index] += 1
            except Exception as error:  # it is raised below, in the thread that answers
                errors.append(error)
                barrier.abort()

        threads = [
            threading.Thread(target=run, args=(index, session.call))
            for index, session in enumerate(self._sessions[:sessions])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return sum(counts) / (time.perf_counter() - clock[0])

    def facts(self) -> Mapping[str, Any]:
        """What the session tells of itself."""
        return self._sessions[0].facts()

    def memory(self) -> int:
        """By how many bytes the process grew at most since it was asked to open the job."""
        return max(0, _memory("VmHWM") - self._resident)

    def run(self, module: str, function: str, *arguments: Any) -> Any:
        """What a function of the harness returns in this process."""
        return getattr(importlib.import_module(module), function)(*arguments)


def timed_calls(call: Callable[[], object], seconds: float, calls_at_most: int) -> list[float]:
    """The times of calls, for about so many seconds; the first, which finds caches cold, does not count."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < calls_at_most and (not times or time.perf_counter() < end):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def serve(connection: Connection) -> None:
    """Answers until the other end closes: ("done", result), or ("failed", one line)."""
    server = Server()
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = "done", getattr(server, name)(*arguments)
        except Exception as error:  # whatever a system throws is its reason, which the harness reports
            answer = "failed", _one_line(error)
        connection.send(answer)


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines)[:_REASON_CHARACTERS] or "no message"
    kind = type(error).__name__
    return text if kind == "Unsupported" else f"{kind}: {text}"


def _memory(field: str) -> int:
    """A field of /proc/self/status in bytes; 0 where there is no such file."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{field}:"))
    except OSError:
        return 0


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: list[str]) -> None:
    """Pins the process, then serves.

    Args:
        arguments: the descriptor of the connection, the CPUs (`0,1`), and how many threads libraries may use.
    """
    descriptor, cpus, threads = arguments
    if sys.platform == "linux":
        # Nobody would wake a stopped worker when the harness is gone.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    for name in _THREAD_VARIABLES:
        os.environ[name] = threads
    import numpy as np  # noqa: F401  its memory is not what a system needs

    serve(Connection(int(descriptor)))
