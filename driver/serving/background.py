"""Compiles in the background: one at a time for all models of this process, each in a child process of low priority.

The compiler would hold Python's lock in this process, and calls would wait for it. The child writes its result into the
cache, or into a temporary one, where this process then finds it. A child ends with this process: it sees the end of its
standard input.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ...runtime.cache.cache import Cache
from ...runtime.program import Program
from ...support.errors import StepwellError
from ..setup import Setup
from ..sources.source import ModelSource
from ..subgraphs.subgraph_source import SubgraphSource
from ..workers.process import interpreter

_SERVE = f"import sys; sys.path[:] = sys.argv[1:]; from {__name__} import serve; serve()"
_NICENESS = 10
"""Niceness of the child, the default of GNU `nice`: the process that waits for it goes on undisturbed."""
_LENGTH_BYTES = 8
"""Size of the number before the request: its length."""

_logger = logging.getLogger("stepwell")


class Compiler(Protocol):
    """A compiler of one model: a dataclass that can be pickled."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def setup(self) -> Setup:
        """Target, options and cache."""
        ...

    @property
    def source(self) -> ModelSource | SubgraphSource:
        """The model."""
        ...


@dataclass(frozen=True)
class BackgroundCompile:
    """A compile of one program.

    Attributes:
        specializer: the compiler of the model.
        work: requests the program from a compiler.
        why: why it is needed.
        done: called in another thread with the program, or the reason why there is none.
    """

    specializer: Compiler
    work: CompilerCall
    why: str
    done: Callable[[Program | str], None]


@dataclass(frozen=True)
class CompilerCall:
    """A method of the compiler, and its arguments; can be pickled."""

    method: str
    arguments: tuple[Any, ...]

    def result(self, specializer: Compiler) -> Program | str:
        """Requests the program from a compiler."""
        made = getattr(specializer, self.method)(*self.arguments)
        return made if isinstance(made, Program | str) else "the model does not run as one program"


class Background:
    """The queue of requests, and the thread that serves it, which starts with the first request."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Starts with no requests and no thread, also in a child process that is a copy of this one."""
        self._requests: queue.SimpleQueue[BackgroundCompile] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._handing_over = threading.Lock()

    def submit(self, request: BackgroundCompile) -> None:
        """Adds a request; returns at once."""
        self._requests.put(request)
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="stepwell-background", daemon=True)
                self._thread.start()

    def hold(self) -> None:
        """Waits until no result is being handed over, and delays the next, so that a fork copies no locks in use."""
        self._handing_over.acquire()

    def release(self) -> None:
        """Ends `hold`."""
        self._handing_over.release()

    def _serve(self) -> None:
        while True:
            request = self._requests.get()
            result = _outcome(request)
            with self._handing_over:
                try:
                    request.done(result)
                except Exception:  # this thread has other requests to serve
                    _logger.exception("%s: a program from the background is lost", request.specializer.source.name)


def _outcome(request: BackgroundCompile) -> Program | str:
    name, start = request.specializer.source.name, time.perf_counter()
    try:
        with ExitStack() as stack:
            cache = request.specializer.setup.cache
            if cache is None:
                cache = Cache(stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-background-")))
            reason = _in_child(request, cache.folder)
            seconds = time.perf_counter() - start
            if reason:
                _logger.warning("%s: a compile in the background failed (%s): %s", name, request.why, reason)
                return reason
            setup = replace(request.specializer.setup, cache=cache).changed(cache="require")
            result = request.work.result(replace(request.specializer, setup=setup))
    except (StepwellError, OSError, pickle.PicklingError, TypeError, AttributeError) as error:
        _logger.warning("%s: a compile in the background failed (%s): %s", name, request.why, error)
        return str(error)
    _logger.info("%s: compiled in the background in %.2f s (%s)", name, seconds, request.why)
    return replace(result, compile_seconds=seconds) if isinstance(result, Program) else result


def _in_child(request: BackgroundCompile, folder: Path) -> str:
    """Makes a child process write the requested program into a cache; returns why it failed, "" for success."""
    quiet = replace(request.specializer.setup, cache=None).changed(codegen_threads=1, progress=False, cache=True)
    specializer = replace(request.specializer, setup=quiet)
    message = pickle.dumps((specializer, folder, request.work, _NICENESS))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [*interpreter(), "-c", _SERVE, *sys.path]
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
        assert child.stdin is not None
        try:
            child.stdin.write(len(message).to_bytes(_LENGTH_BYTES, "little") + message)
            child.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and its log says why
        status = child.wait()
        child.stdin.close()
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
    if status == 0:
        return ""
    return lines[-1] if lines else f"the process ended with status {status}"


def serve() -> None:
    """Compiles the program that the standard input requests, into the cache that it names; for child processes."""
    # Not `sys.stdin.buffer`: Python cannot exit while a thread waits for that.
    requests = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115  as long as the process
    length = int.from_bytes(_read(requests, _LENGTH_BYTES), "little")
    message = _read(requests, length)
    threading.Thread(target=_end_with, args=(requests,), daemon=True).start()
    specializer, folder, work, niceness = pickle.loads(message)
    os.nice(niceness)
    specializer = replace(specializer, setup=replace(specializer.setup, cache=Cache(folder)))
    try:
        work.result(specializer)
    except StepwellError as error:
        sys.exit(" ".join(str(error).split()))


def _read(file: io.RawIOBase, count: int) -> bytes:
    """Returns the next bytes of a pipe.

    Raises:
        EOFError: it was closed before.
    """
    parts = bytearray()
    while len(parts) < count:
        part = file.read(count - len(parts))
        if not part:
            raise EOFError("the request is incomplete")
        parts += part
    return bytes(parts)


def _end_with(parent: io.RawIOBase) -> None:
    """Ends this process when the parent does, which closes its end of the standard input."""
    parent.read(1)
    os._exit(1)


BACKGROUND = Background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=BACKGROUND.hold, after_in_parent=BACKGROUND.release, after_in_child=BACKGROUND.forget)
