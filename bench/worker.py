"""The process of one system: it receives requests from a connection, and answers them one by one.

It pins itself to its CPUs before it imports any library with threads.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

_PR_SET_PDEATHSIG = 1
_REASON_CHARACTERS = 240
# Long enough to be timed, too short for the clock frequency to change.
_MOMENT = 1e-4
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Start:
    """A system's start.

    Attributes:
        seconds: time from before its import to the first outputs.
        cpu_seconds: processor time of all threads, and of finished child processes.
        outputs: the outputs.
    """

    seconds: float
    cpu_seconds: float
    outputs: list[Any]


class Server:
    """Answers requests; each method without an underscore is a request."""

    def __init__(self, plugins: Sequence[str] = ()) -> None:
        """Creates it; Stepwell loads the plug-ins, modules or files, before it compiles."""
        self._plugins = plugins
        self._sessions: list[Any] = []
        self._job: Any = None
        self._system: Any = None
        self._resident = 0

    def open(self, system: str, job: Any) -> Start:
        """Starts the system on a job, which replaces the previous one."""
        from .peers import HERE, MODULE_SYSTEMS, SYSTEMS

        if system.startswith(HERE):
            self._load_plugins()
        self._sessions.clear()
        systems = MODULE_SYSTEMS if job.is_module else SYSTEMS
        self._system, self._job, self._resident = systems[system], job, _memory("VmRSS")
        start, cpu = time.perf_counter(), _cpu_seconds()
        self._sessions.append(self._system.open(job))
        outputs = self._sessions[0].outputs()
        return Start(time.perf_counter() - start, _cpu_seconds() - cpu, outputs)

    def turn(self, seconds: float, calls_at_most: int) -> list[float]:
        """See `timed_calls`."""
        return timed_calls(self._sessions[0].call, seconds, calls_at_most)

    def peak_then(self, seconds: float) -> float:
        """Returns the rate of multiply-adds alone right after calls, as the median over some seconds."""
        from ..runtime.devices import peaks

        call, rate = self._sessions[0].call, peaks.multiply_adds()
        rates: list[float] = []
        end = time.perf_counter() + seconds
        while not rates or time.perf_counter() < end:
            call()
            rates.append(rate(_MOMENT))
        return statistics.median(rates)

    def throughput(self, sessions: int, seconds: float) -> float:
        """Returns the calls per second of concurrent sessions, each called from a separate thread."""
        while len(self._sessions) < sessions:
            self._sessions.append(self._system.open(self._job))
        counts, errors, clock = [0] * sessions, [], [0.0]
        # The clock starts after the first, slow call of every session.
        barrier = threading.Barrier(sessions, action=lambda: clock.__setitem__(0, time.perf_counter()))

        def run(index: int, call: Callable[[], object]) -> None:
            try:
                call()
                barrier.wait()
                while not counts[index] or time.perf_counter() < clock[0] + seconds:
                    call()
                    counts[index] += 1
            except Exception as error:  # raised below, in the thread that answers
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
        """Returns the session's facts."""
        return self._sessions[0].facts()

    def memory(self) -> int:
        """Returns the peak growth of the process's memory in bytes since the job was opened."""
        return max(0, _memory("VmHWM") - self._resident)

    def run(self, module: str, function: str, *arguments: Any) -> Any:
        """Calls a function of the harness in this process."""
        self._load_plugins()
        return getattr(importlib.import_module(module), function)(*arguments)

    def _load_plugins(self) -> None:
        if self._plugins:
            from ..passes.infra.discovery import load_plugin

            for name in self._plugins:
                load_plugin(name)
            self._plugins = ()


def timed_calls(call: Callable[[], object], seconds: float, calls_at_most: int) -> list[float]:
    """Returns the times of calls over some seconds; the first call, with cold caches, does not count."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < calls_at_most and (not times or time.perf_counter() < end):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def serve(connection: Connection, plugins: Sequence[str] = ()) -> None:
    """Answers until the other end closes: ("done", result), or ("failed", one line)."""
    server = Server(plugins)
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = "done", getattr(server, name)(*arguments)
        except Exception as error:  # any exception of a system is reported as its reason
            answer = "failed", _one_line(error)
        connection.send(answer)


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines)[:_REASON_CHARACTERS] or "no message"
    kind = type(error).__name__
    return text if kind == "Unsupported" else f"{kind}: {text}"


def _memory(field: str) -> int:
    """Returns a field of /proc/self/status in bytes; 0 if there is no such file."""
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
        arguments: the descriptor of the connection, the CPUs (`0,1`), the number of threads for libraries, and the
            plug-ins of Stepwell.
    """
    descriptor, cpus, threads, *plugins = arguments
    if sys.platform == "linux":
        # A stopped worker would remain if the harness ended.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
    for name in _THREAD_VARIABLES:
        os.environ[name] = threads
    import numpy as np  # noqa: F401  its memory does not count for a system

    serve(Connection(int(descriptor)), plugins)
