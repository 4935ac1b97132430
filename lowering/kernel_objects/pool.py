"""Shares the kernels of a program out among this process and others."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from mlir import ir

from ...passes.functions import class_of, kernels_in
from ...passes.recorder import is_recording
from ...runtime.cores import available_cores
from .. import invariants
from .library import KernelCode, compile_library, library_of
from .worker import Worker, compile_apart

# A worker has the next library at hand before it is done with one.
_AHEAD = 2
# How many times as long as others kernels take that are tiled to registers; Winograd's are three in one, unrolled.
_WEIGHTS = {"attention": 12, "contraction": 4, "convolution": 4, "depthwise": 5, "winograd": 20}
# A library of less would take longer to begin with than to compile; one of more, longer than the same in parts.
_LEAST_WEIGHT, _MOST_WEIGHT = 8, 40


@dataclass
class KernelPool:
    """Compiles kernels, in this process and in workers.

    Attributes:
        target: the machine to generate code for, as `Target.parse` takes it.
        threads: how many kernels LLVM compiles at once where there are no workers.
        workers: the other processes.
    """

    target: str
    threads: int = 1
    workers: list[Worker] = field(default_factory=list)

    def compile(self, kernels: Sequence[ir.Operation]) -> dict[str, KernelCode]:
        """The code of kernels as `stepwell-form-kernels` makes them, by name.

        Raises:
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM refused a kernel.
        """
        if is_recording():
            return self._compile_one_by_one(kernels)
        if not self.workers:
            return compile_library(library_of(kernels), self.target, self.threads) if kernels else {}
        libraries = deque(_shares(kernels, 1 + len(self.workers)))
        done: dict[str, KernelCode] = {}
        feeders = [_Feeder(worker, self.target, libraries) for worker in self.workers]
        for feeder in feeders:
            feeder.start()
        for feeder in feeders:
            feeder.has_begun.wait()  # else this thread would hardly let it: MLIR holds Python's lock
        while libraries:
            done |= self._compile_here(libraries.popleft())
        for feeder in feeders:
            feeder.join()
            done |= feeder.done
            for library in feeder.failed:
                done |= self._compile_apart(library) if feeder.is_lost else self._compile_here(library)
        return done

    def _compile_here(self, library: bytes) -> dict[str, KernelCode]:
        return compile_library(ir.Module.parse(library), self.target)

    def _compile_one_by_one(self, kernels: Sequence[ir.Operation]) -> dict[str, KernelCode]:
        """As `compile`, in such a way that a failure is that of a single kernel."""
        done: dict[str, KernelCode] = {}
        for kernel in kernels:
            done |= compile_library(library_of([kernel]), self.target)
        return done

    def _compile_apart(self, library: bytes) -> dict[str, KernelCode]:
        """The code of kernels, one of which may have ended the process that compiled it.

        Raises:
            CompilerCrash: one has, and does so again.
        """
        done: dict[str, KernelCode] = {}
        module = ir.Module.parse(library)  # it must live as long as what is in it
        for kernel in kernels_in(module.operation):
            alone = _bytecode(library_of([kernel]))
            code = compile_apart(alone, self.target)
            done |= self._compile_here(alone) if code is None else code
        return done


class _Feeder(threading.Thread):
    """Keeps a worker busy."""

    def __init__(self, worker: Worker, target: str, libraries: deque[bytes]) -> None:
        super().__init__(daemon=True)
        self._worker, self._target, self._libraries = worker, target, libraries
        self.done: dict[str, KernelCode] = {}
        self.failed: deque[bytes] = deque()
        self.is_lost = False
        self.has_begun = threading.Event()

    def run(self) -> None:
        try:
            self._feed(self.failed)
        except OSError:
            self.is_lost = True  # what is pending is left to whoever asked
        finally:
            self.has_begun.set()

    def _feed(self, pending: deque[bytes]) -> None:
        while True:
            while len(pending) < _AHEAD and self._libraries:
                pending.append(self._libraries.popleft())
                self._worker.send(pending[-1], self._target)
                self.has_begun.set()
            if not pending:
                return
            code = self._worker.receive()
            if code is None:
                return
            self.done |= code
            pending.popleft()


@contextmanager
def kernel_pool(target: str, processes: int) -> Iterator[KernelPool]:
    """A pool of up to so many processes, this one counted: no more than there are processors."""
    with ExitStack() as stack:
        workers = []
        for _ in range(min(processes, available_cores()) - 1):
            try:
                worker = Worker()
            except OSError:
                break  # one process does as well
            stack.callback(worker.close)
            workers.append(worker)
        yield KernelPool(target, processes, workers)


def _shares(kernels: Sequence[ir.Operation], processes: int) -> Iterator[bytes]:
    """Libraries of kernels, each a part of what is left, the slowest first: so all processes end at about one time."""
    weights = {invariants.symbol(kernel): _weight(kernel) for kernel in kernels}
    left, share, size = sum(weights.values()), [], 0.0
    for kernel in sorted(kernels, key=lambda kernel: weights[invariants.symbol(kernel)], reverse=True):
        share.append(kernel)
        size += weights[invariants.symbol(kernel)]
        if size >= min(max(left / (2 * processes), _LEAST_WEIGHT), _MOST_WEIGHT):
            yield _bytecode(library_of(share))
            left, share, size = left - size, [], 0.0
    if share:
        yield _bytecode(library_of(share))


def _weight(kernel: ir.Operation) -> float:
    kind = class_of(kernel)
    return _WEIGHTS.get(kind, 1) + len(kernel.regions[0].blocks[0].operations) / 8


def _bytecode(library: ir.Module) -> bytes:
    stream = io.BytesIO()
    library.operation.write_bytecode(stream)
    return stream.getvalue()
