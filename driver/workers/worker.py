"""What a process does that compiles libraries of kernels, and what is asked of one for a single library."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from mlir import ir

from ...dialects.registry import load_dialects
from ...passes.entry_points import PluginWarning
from ...passes.guarded import CompilerCrash, crash_text, last_line
from ...passes.recorder import Recorder, recording
from ..context import compiler_context
from .ahead import compile_ahead
from .claims import Claims, Outlook
from .library import KernelCode, compile_library, library_of
from .process import AHEAD, Compile, Share, Worker, receive, send
from .shared_queue import SharedQueue

Requests = SimpleQueue[Compile | Share | Outlook | None]


_TOLD = "stderr.txt"


def compile_apart(library: bytes, target: str) -> dict[str, KernelCode] | None:
    """What a process of its own makes of a library; None where it fails there, or there can be no such process.

    Raises:
        CompilerCrash: the process crashed, and once more while it was watched.
    """
    code, end = _attempt(library, target, None)
    if not end:
        return code
    folder = Path(tempfile.mkdtemp(prefix="stepwell-"))
    code, end = _attempt(library, target, folder)
    if not end:
        return code
    told = folder / _TOLD
    raise CompilerCrash(crash_text(end, "", last_line(told.read_bytes() if told.exists() else b"")), end, folder)


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


@contextmanager
def _watched(folder: Path | None) -> Iterator[None]:
    """Leaves in a folder how far the work has come, and what native code says meanwhile."""
    if folder is None:
        yield
        return
    with open(folder / _TOLD, "wb") as told:
        os.dup2(told.fileno(), 2)
    with recording(Recorder(folder)):
        yield


def serve(descriptors: str) -> None:
    """Compiles what comes in by a socket, or is in a shared queue, until the socket is closed."""
    descriptor, *shared = map(int, descriptors.split(","))
    # An interrupt from the keyboard goes to all processes of the terminal; this one ends when it is told to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", PluginWarning)  # the parent process has shown them
    requests: Requests = SimpleQueue()
    with socket.socket(fileno=descriptor) as connection:
        threading.Thread(target=_read, args=(connection, requests), daemon=True).start()
        try:
            _Server(connection, requests, *shared).run()
        except OSError:
            # Nobody listens any more, and there may be none to tell: threads and contexts go with the process.
            os._exit(0)


class _Server:
    def __init__(
        self, connection: socket.socket, requests: Requests, queue: int | None = None, claims: int | None = None
    ) -> None:
        self._connection, self._requests = connection, requests
        self._queue = None if queue is None else SharedQueue(queue)
        self._claims = None if claims is None else Claims(claims)
        self._ahead: dict[str, KernelCode] = {}

    def run(self) -> None:
        """Does what comes in.

        Raises:
            OSError: nobody listens any more.
        """
        with compiler_context() as context, ir.Location.unknown():
            load_dialects(context)
            # What the first library would wait for: passes are imported when they are first run.
            compile_library(library_of([]), "cpu")
            while (request := self._requests.get()) is not None:
                self._answer(request)

    def _answer(self, request: Compile | Share | Outlook) -> None:
        if isinstance(request, Compile):
            with _watched(request.folder):
                send(self._connection, _compiled(request.library, request.target))
        elif isinstance(request, Share):
            self._share(request.target)
        elif self._claims is not None:
            self._ahead = compile_ahead(request, self._claims)

    def _share(self, target: str) -> None:
        send(self._connection, (AHEAD, self._ahead))
        self._ahead = {}
        while self._queue is not None and (library := self._queue.take()) is not None:
            send(self._connection, (library.number, _compiled(library.data, target)))
        send(self._connection, None)


def _compiled(library: bytes, target: str) -> dict[str, KernelCode] | None:
    try:
        return compile_library(ir.Module.parse(library), target)
    except Exception:  # who asked compiles it again, and so has the error with its place
        return None


def _read(connection: socket.socket, requests: Requests) -> None:
    """Takes requests off the socket as they come, so that whoever sends them never waits."""
    try:
        while True:
            requests.put(receive(connection))
    except OSError:
        requests.put(None)
