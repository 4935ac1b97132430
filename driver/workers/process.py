"""A worker process that compiles libraries of kernels; threads would take turns, as MLIR holds Python's lock.

The process is a fresh interpreter and not a fork, so that threads and locks of this process cannot disturb it. It
imports this package and nothing of the user's program. It ends when its socket is closed, so at the latest with this
process. It does not explain errors: the requester compiles the kernel again and reports the error.

Needs no MLIR: the worker starts while this process imports it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .claims import Claims, Speculation
from .shared_queue import SharedQueue

if TYPE_CHECKING:
    from .library import KernelCode

# Imported modules stay: there is nothing to collect.
_SERVE = (
    f"import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:]; from {__package__}.worker import serve; "
    "serve(sys.argv[1])"
)
# The interpreter's isolation flags, which the worker inherits.
_FLAGS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}
_HEADER_BYTES = 8
"""Size of the number before a message: its length."""
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)

SPECULATIVE = -1
"""The library number of speculatively compiled kernels."""


@dataclass(frozen=True)
class Compile:
    """A request to compile a library, with a folder for its progress."""

    library: bytes
    target: str
    folder: Path | None


@dataclass(frozen=True)
class QueueRequest:
    """A request to take libraries from the queue until it is empty."""

    target: str


def interpreter() -> list[str]:
    """Returns the command of this Python, with the flags that isolate it."""
    return [sys.executable, *(option for name, option in _FLAGS.items() if getattr(sys.flags, name))]


class Worker:
    """A process that compiles libraries, in the order in which they are received."""

    def __init__(self, queue: SharedQueue | None = None, claims: Claims | None = None) -> None:
        """Starts the process; it is ready to compile after a third of a second.

        Args:
            queue: the queue from which it takes libraries.
            claims: the file with the model for a speculative compile.

        Raises:
            OSError: the process cannot be started.
        """
        self._socket, theirs = socket.socketpair()
        given = [theirs.fileno(), *(shared.descriptor for shared in (queue, claims) if shared is not None)]
        command = [*interpreter(), "-c", _SERVE, ",".join(map(str, given)), *sys.path]
        # It runs no kernels and multiplies no matrices: thread pools would only take memory.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=given, env=environment)
            except BaseException:
                self._socket.close()
                raise

    @property
    def process_id(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, library: bytes, target: str, folder: Path | None = None) -> None:
        """Sends the bytecode of a library; with a folder, the progress of its compile is recorded there.

        Raises:
            OSError: the process has ended.
        """
        send(self._socket, Compile(library, target, folder))

    def speculate(self, speculation: Speculation) -> None:
        """Starts a speculative compile of the model in the claims, until these are settled.

        Raises:
            OSError: the process has ended.
        """
        send(self._socket, speculation)

    def share(self, target: str) -> bool:
        """Requests that the process take libraries from the queue until it is empty; returns False if it has ended."""
        try:
            send(self._socket, QueueRequest(target))
        except OSError:
            return False
        return True

    def answers(self) -> Iterator[tuple[int, dict[str, KernelCode] | None]]:
        """Yields the code of every library that the process took from the queue; None if it failed.

        Speculatively compiled kernels come first, as the library `SPECULATIVE`.

        Raises:
            OSError: the process has ended.
        """
        while (answer := receive(self._socket)) is not None:
            yield answer

    def receive(self) -> dict[str, KernelCode] | None:
        """Returns the code of the first library sent that has not been received yet; None if its compile failed.

        Raises:
            OSError: the process has ended.
        """
        return receive(self._socket)

    def end(self) -> str:
        """Waits for the process to end; returns the signal that ended it, "" if none did."""
        status = self._process.wait()
        return signal.Signals(-status).name if status < 0 else ""

    def close(self) -> None:
        """Kills the process."""
        self._process.kill()
        self._process.wait()
        self._socket.close()


def send(connection: socket.socket, message: object) -> None:
    """Writes a message for `receive` at the other end.

    Raises:
        OSError: the other end is closed.
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    connection.sendall(len(data).to_bytes(_HEADER_BYTES, "little") + data, _NO_SIGNAL)


def receive(connection: socket.socket) -> Any:
    """Waits for the next message.

    Raises:
        OSError: the other end is closed.
    """
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
