"""Shares the kernels of a program out among this process and others."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from mlir import ir

from ...passes.functions import class_of, kernels_in
from ...passes.recorder import is_recording
from ...runtime.cores import available_cores
from .. import invariants
from .library import KernelCode, compile_library, library_of
from .shared_queue import SharedQueue
from .worker import Worker, compile_apart

# How many times as long as others kernels take that are tiled to registers; Winograd's are three in one, unrolled.
_WEIGHTS = {"attention": 12, "contraction": 4, "convolution": 4, "depthwise": 5, "winograd": 20}
# A library of less would take longer to begin with than to compile; one of more would keep the others waiting.
_LEAST_WEIGHT, _MOST_WEIGHT = 4, 20


@dataclass
class KernelPool:
    """Compiles kernels, in this process and in workers.

    Attributes:
        target: the machine to generate code for, as `Target.parse` takes it.
        threads: how many kernels LLVM compiles at once where there are no workers.
        workers: the other processes.
        queue: what they take from.
    """

    target: str
    threads: int = 1
    workers: Sequence[Worker] = ()
    queue: SharedQueue | None = None

    def compile(self, kernels: Sequence[ir.Operation]) -> dict[str, KernelCode]:
        """The code of kernels as `stepwell-form-kernels` makes them, by name.

        Raises:
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM refused a kernel.
        """
        if is_recording():
            return self._compile_one_by_one(kernels)
        if self.queue is None or not self.workers:
            return compile_library(library_of(kernels), self.target, self.threads) if kernels else {}
        libraries = list(_shares(kernels, 1 + len(self.workers)))
        try:
            self.queue.fill(libraries)
        except OSError:
            return self._compile_all_here(libraries)
        listeners = [_Listener(worker) for worker in self.workers if worker.share(self.target)]
        for listener in listeners:
            listener.start()
        done: dict[int, dict[str, KernelCode]] = {}
        while (library := self.queue.take()) is not None:
            done[library.number] = self._compile_here(library.data)
        for listener in listeners:
            listener.join()
            done |= listener.done | {index: self._compile_here(libraries[index]) for index in listener.failed}
        for index, library in enumerate(libraries):
            if index not in done:  # the worker that took it has ended
                done[index] = self._compile_apart(library)
        return {name: code for index in sorted(done) for name, code in done[index].items()}

    def _compile_all_here(self, libraries: Sequence[bytes]) -> dict[str, KernelCode]:
        return {name: code for library in libraries for name, code in self._compile_here(library).items()}

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


class _Listener(threading.Thread):
    """Hears what becomes of the libraries that a worker takes."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(daemon=True)
        self._worker = worker
        self.done: dict[int, dict[str, KernelCode]] = {}
        self.failed: set[int] = set()

    def run(self) -> None:
        try:
            for index, code in self._worker.answers():
                if code is None:
                    self.failed.add(index)
                else:
                    self.done[index] = code
        except OSError:
            return  # what it has not answered for is left to whoever asked


@contextmanager
def kernel_pool(target: str, processes: int) -> Iterator[KernelPool]:
    """A pool of up to so many processes, this one counted: no more than there are processors."""
    with ExitStack() as stack:
        workers, queue = [], None
        with suppress(OSError):  # one process does as well
            for _ in range(min(processes, available_cores()) - 1):
                if queue is None:
                    queue = SharedQueue()
                    stack.callback(queue.close)
                worker = Worker(queue)
                stack.callback(worker.close)
                workers.append(worker)
        yield KernelPool(target, processes, workers, queue)


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
