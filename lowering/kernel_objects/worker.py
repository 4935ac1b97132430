"""Another process that compiles libraries of kernels: MLIR holds Python's lock, so that threads would take turns.

The process is a fresh interpreter rather than a fork, which no state of this one, threads and locks least of all, can
disturb. It imports this package and nothing of the program. It ends when its socket does, so with this process at the
latest. What it cannot compile it does not explain: whoever asked compiles it too, and sees what is wrong at first hand.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from mlir import ir

from ...dialects.stepwell import STEPWELL
from ...passes.guarded import CompilerCrash, crash_text, last_line
from ...passes.recorder import Recorder, recording
from ..context import compiler_context
from .library import KernelCode, compile_library, library_of
from .shared_queue import SharedQueue

# What is imported stays: there is nothing to collect.
_SERVE = f"import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:]; from {__name__} import serve; serve(sys.argv[1])"
# What the interpreter was told not to look at.
_FLAGS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}
_HEADER_BYTES = 8
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)


Requests = SimpleQueue[tuple[bytes | None, str, Path | None] | None]


class Worker:
    """A process that compiles libraries, in the order in which they come."""

    def __init__(self, queue: SharedQueue | None = None) -> None:
        """Starts the process; it takes a third of a second until it compiles.

        Args:
            queue: what it takes libraries from, where it is not given them one by one.

        Raises:
            OSError: there can be no such process.
        """
        self._socket, theirs = socket.socketpair()
        flags = [option for name, option in _FLAGS.items() if getattr(sys.flags, name)]
        given = [theirs.fileno(), *([] if queue is None else [queue.descriptor])]
        command = [sys.executable, *flags, "-c", _SERVE, ",".join(map(str, given)), *sys.path]
        # It calls no kernels and multiplies no matrices: thread pools would only take memory.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=given, env=environment)
            except BaseException:
                self._socket.close()
                raise

    @property
    def process_id(self) -> int:
        """The number that the system knows it by."""
        return self._process.pid

    def send(self, library: bytes, target: str, folder: Path | None = None) -> None:
        """Hands over the bytecode of a library; with a folder, how far its compile has come is written there.

        Raises:
            OSError: the process has ended.
        """
        _send(self._socket, (library, target, folder))

    def share(self, target: str) -> bool:
        """Has the process take libraries from the queue until none is left; whether it is there to do so."""
        try:
            _send(self._socket, (None, target, None))
        except OSError:
            return False
        return True

    def answers(self) -> Iterator[tuple[int, dict[str, KernelCode] | None]]:
        """The code of every library that the process has taken from the queue, None where it failed, till it is done.

        Raises:
            OSError: the process has ended.
        """
        while (answer := _receive(self._socket)) is not None:
            yield answer

    def receive(self) -> dict[str, KernelCode] | None:
        """The code of the library that was handed over first of those not received yet; None where it failed.

        Raises:
            OSError: the process has ended.
        """
        return _receive(self._socket)

    def end(self) -> str:
        """The signal that ended the process, once it has ended; "" where it was none."""
        status = self._process.wait()
        return signal.Signals(-status).name if status < 0 else ""

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._socket.close()


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
    requests: Requests = SimpleQueue()
    with socket.socket(fileno=descriptor) as connection:
        threading.Thread(target=_read, args=(connection, requests), daemon=True).start()
        try:
            _answer(connection, requests, SharedQueue(shared[0]) if shared else None)
        except OSError:
            # Nobody listens any more, and there may be none to tell: threads and contexts go with the process.
            os._exit(0)


def _answer(connection: socket.socket, requests: Requests, shared: SharedQueue | None) -> None:
    with compiler_context() as context, ir.Location.unknown():
        STEPWELL.load(context)
        # What the first library would wait for: passes are imported when they are first run.
        compile_library(library_of([]), "cpu")
        while (request := requests.get()) is not None:
            data, target, folder = request
            if data is not None:
                with _watched(folder):
                    _send(connection, _compiled(data, target))
                continue
            while shared is not None and (library := shared.take()) is not None:
                _send(connection, (library.number, _compiled(library.data, target)))
            _send(connection, None)


def _compiled(library: bytes, target: str) -> dict[str, KernelCode] | None:
    try:
        return compile_library(ir.Module.parse(library), target)
    except Exception:  # who asked compiles it again, and so has the error with its place
        return None


def _read(connection: socket.socket, requests: Requests) -> None:
    """Takes requests off the socket as they come, so that whoever sends them never waits."""
    try:
        while True:
            requests.put(_receive(connection))
    except OSError:
        requests.put(None)


def _send(connection: socket.socket, message: object) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    connection.sendall(len(data).to_bytes(_HEADER_BYTES, "little") + data, _NO_SIGNAL)


def _receive(connection: socket.socket):
    size = int.from_bytes(_exactly(connection, _HEADER_BYTES), "little")
    return pickle.loads(_exactly(connection, size))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("the other process has ended")
        view = view[count:]
    return bytes(data)
