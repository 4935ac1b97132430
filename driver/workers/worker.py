"""The main loop of a worker process, and the compile of a single library in a worker."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import warnings
from pathlib import Path
from queue import SimpleQueue

from mlir import ir

from ...dialects.registry import load_dialects
from ...passes.infra.entry_points import PluginWarning
from ...passes.infra.guarded import CompilerCrash, crash_text, last_line
from ..context import compiler_context
from ..failure_recorder import FailureRecorder
from ..state import state_for
from .claims import Claims, Speculation
from .library import KernelCode, compile_library, library_of
from .process import SPECULATIVE, Compile, QueueRequest, Worker, receive, send
from .shared_queue import SharedQueue
from .speculation import compile_speculatively

Requests = SimpleQueue[Compile | QueueRequest | Speculation | None]


_STDERR = "stderr.txt"


def compile_alone(library: bytes, target: str) -> dict[str, KernelCode] | None:
    """Compiles a library in a new process; returns None if that fails, or the process cannot be started.

    Raises:
        CompilerCrash: the process crashed, and crashed again while it was recorded.
    """
    code, end = _attempt(library, target, None)
    if not end:
        return code
    folder = Path(tempfile.mkdtemp(prefix="stepwell-"))
    code, end = _attempt(library, target, folder)
    if not end:
        return code
    stderr = folder / _STDERR
    raise CompilerCrash(crash_text(end, last_line(stderr.read_bytes() if stderr.exists() else b"")), end, folder)


def _attempt(library: bytes, target: str, folder: Path | None) -> tuple[dict[str, KernelCode] | None, str]:
    try:
        worker = Worker()
    except OSError:
        return None, ""
    try:
        worker.send(library, target, folder)
        return worker.receive(), ""
    except OSError:
        return None, worker.end()
    finally:
        worker.close()


def _recorder(folder: Path | None) -> FailureRecorder | None:
    """Returns a recorder of the work in a folder, where the messages of native code go as well; None for no folder."""
    if folder is None:
        return None
    with open(folder / _STDERR, "wb") as stderr:
        os.dup2(stderr.fileno(), 2)
    return FailureRecorder(folder)


def serve(descriptors: str) -> None:
    """Compiles libraries from a socket or a shared queue until the socket is closed."""
    descriptor, *shared = map(int, descriptors.split(","))
    # A keyboard interrupt reaches all processes of the terminal; this one ends on request.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", PluginWarning)  # the parent process has shown them
    requests: Requests = SimpleQueue()
    with socket.socket(fileno=descriptor) as connection:
        threading.Thread(target=_read, args=(connection, requests), daemon=True).start()
        try:
            _Server(connection, requests, *shared).run()
        except OSError:
            # The other end is closed; threads and contexts end with the process.
            os._exit(0)


class _Server:
    def __init__(
        self, connection: socket.socket, requests: Requests, queue: int | None = None, claims: int | None = None
    ) -> None:
        self._connection, self._requests = connection, requests
        self._queue = None if queue is None else SharedQueue(queue)
        self._claims = None if claims is None else Claims(claims)
        self._speculative: dict[str, KernelCode] = {}
        self._state = state_for("cpu")

    def run(self) -> None:
        """Processes requests.

        Raises:
            OSError: the other end is closed.
        """
        with compiler_context() as context, ir.Location.unknown():
            load_dialects(context)
            # Imports the passes in advance: they are imported when they first run.
            compile_library(library_of([]), self._state)
            while (request := self._requests.get()) is not None:
                self._answer(request)

    def _answer(self, request: Compile | QueueRequest | Speculation) -> None:
        if isinstance(request, Compile):
            send(self._connection, self._compiled(request.library, request.target, _recorder(request.folder)))
        elif isinstance(request, QueueRequest):
            self._share(request.target)
        elif self._claims is not None:
            self._speculative = compile_speculatively(request, self._claims)

    def _share(self, target: str) -> None:
        send(self._connection, (SPECULATIVE, self._speculative))
        self._speculative = {}
        while self._queue is not None and (library := self._queue.take()) is not None:
            send(self._connection, (library.number, self._compiled(library.data, target)))
        send(self._connection, None)

    def _compiled(
        self, library: bytes, target: str, recorder: FailureRecorder | None = None
    ) -> dict[str, KernelCode] | None:
        try:
            state = state_for(target, recorder=recorder, prepared=self._state.pipelines)
            return compile_library(ir.Module.parse(library), state)
        except Exception:  # the requester compiles it again, and raises the error, or logs that there is none
            return None


def _read(connection: socket.socket, requests: Requests) -> None:
    """Reads requests from the socket as they arrive, so that the sender never waits."""
    try:
        while True:
            requests.put(receive(connection))
    except OSError:
        requests.put(None)
