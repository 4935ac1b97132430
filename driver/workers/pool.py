"""Distributes the kernels of a program among this process and workers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field

from mlir import ir

from ...dialects.symbols import symbol_of
from ...passes.infra.state import CompileState
from ...passes.ir.functions import kernels_in
from ...runtime.progress.progress import CompileReporter
from ...support.wording import quantity
from .claims import Claims, Speculation
from .library import KernelCode, compile_library, library_of
from .process import SPECULATIVE, Worker
from .shared_queue import SharedQueue
from .shares import bytecode, in_order, module_bytecode, slowest_first
from .worker import compile_alone
from .worker_pool import WorkerPool, worker_pool

_logger = logging.getLogger("stepwell")
_TELL_SECONDS = 0.2
"""Seconds between two progress events while only workers compile."""


@dataclass
class KernelPool:
    """Compiles kernels in this process and in workers.

    Attributes:
        threads: number of kernels that LLVM compiles concurrently if there are no workers.
        workers: the worker processes.
        queue: the queue that they take libraries from.
        claims: the speculative compile of one of them.
        listeners: the threads that wait for workers' answers.
    """

    threads: int = 1
    workers: Sequence[Worker] = ()
    queue: SharedQueue | None = None
    claims: Claims | None = None
    listeners: list[_Listener] = field(default_factory=list)

    def start_speculation(self, module: ir.Module, state: CompileState) -> None:
        """Starts a speculative compile of the first part of a model in a worker, if there is one.

        Args:
            module: the model, in the phase `import`.
            state: the state of the compile, with the shapes of the model's inputs.
        """
        if self.claims is None or not self.workers or state.is_recorded:
            return
        with suppress(OSError):  # all kernels are compiled later
            self.claims.put(module_bytecode(module))
            self.workers[0].speculate(Speculation(state.target, tuple(state.shapes or ()), tuple(state.without)))

    def compile(self, kernels: Sequence[ir.Operation], state: CompileState) -> dict[str, KernelCode]:
        """Compiles kernels as `stepwell-form-kernels` makes them; returns the code by name.

        Raises:
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM rejected a kernel.
        """
        if state.is_recorded:
            return self._compile_one_by_one(kernels, state)
        reporter = state.reporter
        if reporter is not None and reporter.has_listener:
            reporter.report("kernels", 0, len(kernels))
        codes = self._compile(kernels, state)
        if reporter is not None and reporter.has_listener:
            reporter.report("kernels", len(kernels), len(kernels))
        return codes

    def _compile(self, kernels: Sequence[ir.Operation], state: CompileState) -> dict[str, KernelCode]:
        reporter = state.reporter
        has_listener = reporter is not None and reporter.has_listener
        if (self.queue is None or not self.workers) and not has_listener:
            return compile_library(library_of(kernels), state, self.threads) if kernels else {}
        if self.queue is None or not self.workers:
            codes: dict[str, KernelCode] = {}
            for share in in_order(kernels):
                codes |= compile_library(library_of(share), state, self.threads)
                _report(reporter, len(codes))
            return codes
        claimed = self.claims.settle() if self.claims is not None else set()
        requested = [kernel for kernel in kernels if symbol_of(kernel) not in claimed]
        libraries = list(map(bytecode, slowest_first(requested, 1 + len(self.workers))))
        try:
            self.queue.fill(libraries)
        except OSError:
            return self._compile_all_here([bytecode(kernels)], state)
        listeners = self._start_workers(state.target)
        done: dict[int, dict[str, KernelCode]] = {}
        while (library := self.queue.take()) is not None:
            done[library.number] = self._compile_here(library.data, state)
            _report(reporter, _count(done, listeners))
        if len(done) == len(libraries) and not claimed:
            # Workers that have taken no library, perhaps because they are still starting, owe no answer.
            known = {name: code for codes in done.values() for name, code in codes.items()}
            return {name: known[name] for name in map(symbol_of, kernels)}
        speculative: dict[str, KernelCode] = {}
        for listener in listeners:
            while has_listener and listener.is_alive():
                listener.join(_TELL_SECONDS)
                _report(reporter, _count(done, listeners))
            listener.join()
            speculative |= listener.done.pop(SPECULATIVE, {})
            done |= listener.done | {index: self._compile_here(libraries[index], state) for index in listener.failed}
            if listener.failed:  # an error of the kernels themselves would have been raised
                number = quantity(len(listener.failed), "library")
                _logger.warning("a worker failed to compile %s, which this process has compiled again", number)
        for index, library in enumerate(libraries):
            if index not in done:  # the worker that took it has ended
                done[index] = self._compile_alone(library, state)
        codes = {name: code for index in sorted(done) for name, code in done[index].items()}
        known = codes | speculative
        missing = [kernel for kernel in kernels if symbol_of(kernel) not in known]
        if missing:  # the worker that claimed them failed, or has ended
            known |= self._compile_alone(bytecode(missing), state)
        return {name: known[name] for name in map(symbol_of, kernels)}

    def _start_workers(self, target: str) -> list[_Listener]:
        """Starts all workers on the queue; returns the listeners for their answers.

        A worker that has not begun with the last queue takes from this one instead, and its listener receives the
        answers.
        """
        self.listeners = [listener for listener in self.listeners if listener.is_alive()]
        busy = [listener.worker for listener in self.listeners]
        for worker in self.workers:
            if worker not in busy and worker.share(target):
                self.listeners.append(_Listener(worker))
                self.listeners[-1].start()
        return self.listeners

    def _compile_all_here(self, libraries: Sequence[bytes], state: CompileState) -> dict[str, KernelCode]:
        return {name: code for library in libraries for name, code in self._compile_here(library, state).items()}

    def _compile_here(self, library: bytes, state: CompileState) -> dict[str, KernelCode]:
        return compile_library(ir.Module.parse(library), state)

    def _compile_one_by_one(self, kernels: Sequence[ir.Operation], state: CompileState) -> dict[str, KernelCode]:
        """Compiles each kernel separately, so that a failure is attributed to a single kernel."""
        done: dict[str, KernelCode] = {}
        for kernel in kernels:
            done |= compile_library(library_of([kernel]), state)
        return done

    def _compile_alone(self, library: bytes, state: CompileState) -> dict[str, KernelCode]:
        """Compiles kernels in child processes, one of which may have crashed before.

        Raises:
            CompilerCrash: a kernel crashes its process again.
        """
        done: dict[str, KernelCode] = {}
        module = ir.Module.parse(library)  # keeps the operations in it alive
        for kernel in kernels_in(module.operation):
            alone = bytecode([kernel])
            code = compile_alone(alone, state.target)
            done |= self._compile_here(alone, state) if code is None else code
        return done


def _count(done: Mapping[int, dict[str, KernelCode]], listeners: Sequence[_Listener]) -> int:
    """Returns the number of kernels compiled so far, here and by workers."""
    copies = [listener.done.copy() for listener in listeners]
    theirs = {index: code for copied in copies for index, code in copied.items() if index != SPECULATIVE}
    speculative = [copied.get(SPECULATIVE, {}) for copied in copies]
    return sum(map(len, ({**done, **theirs}).values())) + sum(map(len, speculative))


def _report(reporter: CompileReporter | None, done: int) -> None:
    if reporter is not None and reporter.has_listener:
        reporter.report("kernels", min(done, reporter.event.total))


class _Listener(threading.Thread):
    """A thread that receives a worker's answers."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(daemon=True)
        self.worker = worker
        self.done: dict[int, dict[str, KernelCode]] = {}
        self.failed: set[int] = set()

    def run(self) -> None:
        try:
            for index, code in self.worker.answers():
                if code is None:
                    self.failed.add(index)
                else:
                    self.done[index] = code
        except OSError:
            return  # the caller compiles what is unanswered


@contextmanager
def kernel_pool(processes: int, waiting: WorkerPool | None = None, *, may_start: bool = True) -> Iterator[KernelPool]:
    """A pool of up to `processes` processes, including this one, but not more than there are processors.

    Args:
        processes: maximum number of processes, or of threads if there are no workers.
        waiting: workers that were started in advance, which are used if more than one process is requested.
        may_start: whether workers may be started.
    """
    if waiting is not None and processes > 1:
        started = nullcontext(waiting)
    else:
        started = worker_pool(processes if may_start else 1)
    with started as pool:
        yield KernelPool(processes, pool.workers, pool.queue, pool.claims)
