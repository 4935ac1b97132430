"""Another process that compiles libraries of kernels: MLIR holds Python's lock, so that threads would take turns.

The process is a fresh interpreter rather than a fork, which no state of this one, threads and locks least of all, can
disturb. It imports this package and nothing of the program. It ends when its socket does, so with this process at the
latest. What it cannot compile it does not explain: whoever asked compiles it too, and sees what is wrong at first hand.

Needs no MLIR: the process starts while this one imports it.
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

from .claims import Claims, Outlook
from .shared_queue import SharedQueue

if TYPE_CHECKING:
    from .library import KernelCode

# What is imported stays: there is nothing to collect.
_SERVE = (
    f"import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:]; from {__package__}.worker import serve; "
    "serve(sys.argv[1])"
)
# What the interpreter was told not to look at.
_FLAGS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}
_HEADER_BYTES = 8
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)

AHEAD = -1
"""The number of what a worker compiled before there were libraries."""


@dataclass(frozen=True)
class Compile:
    """A library to compile, and where to write how far that has come."""

    library: bytes
    target: str
    folder: Path | None


@dataclass(frozen=True)
class Share:
    """Libraries to take from the queue, until none is left."""

    target: str


class Worker:
    """A process that compiles libraries, in the order in which they come."""

    def __init__(self, queue: SharedQueue | None = None, claims: Claims | None = None) -> None:
        """Starts the process; it takes a third of a second until it compiles.

        Args:
            queue: what it takes libraries from, where it is not given them one by one.
            claims: where it finds a model to go ahead with.

        Raises:
            OSError: there can be no such process.
        """
        self._socket, theirs = socket.socketpair()
        flags = [option for name, option in _FLAGS.items() if getattr(sys.flags, name)]
        given = [theirs.fileno(), *(shared.descriptor for shared in (queue, claims) if shared is not None)]
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
        send(self._socket, Compile(library, target, folder))

    def go_ahead(self, outlook: Outlook) -> None:
        """Has the process compile kernels of the first part of the model in its claims, until these are settled.

        Raises:
            OSError: the process has ended.
        """
        send(self._socket, outlook)

    def share(self, target: str) -> bool:
        """Has the process take libraries from the queue until none is left; whether it is there to do so."""
        try:
            send(self._socket, Share(target))
        except OSError:
            return False
        return True

    def answers(self) -> Iterator[tuple[int, dict[str, KernelCode] | None]]:
        """The code of every library that the process has taken from the queue, None where it failed, till it is done.

        What it compiled before comes first, as that of the library `AHEAD`.

        Raises:
            OSError: the process has ended.
        """
        while (answer := receive(self._socket)) is not None:
            yield answer

    def receive(self) -> dict[str, KernelCode] | None:
        """The code of the library that was handed over first of those not received yet; None where it failed.

        Raises:
            OSError: the process has ended.
        """
        return receive(self._socket)

    def end(self) -> str:
        """The signal that ended the process, once it has ended; "" where it was none."""
        status = self._process.wait()
        return signal.Signals(-status).name if status < 0 else ""

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._socket.close()


def send(connection: socket.socket, message: object) -> None:
    """Writes what `receive` reads at the other end.

    Raises:
        OSError: there is no other end any more.
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    connection.sendall(len(data).to_bytes(_HEADER_BYTES, "little") + data, _NO_SIGNAL)


def receive(connection: socket.socket) -> Any:
    """Waits for the next message.

    Raises:
        OSError: there is no other end any more.
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
