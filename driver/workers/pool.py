"""Shares the kernels of a program out among this process and others."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mlir import ir

from ...lowering import invariants
from ...passes.functions import kernels_in
from ...passes.recorder import is_recording
from ...runtime import progress
from .claims import Claims, Outlook
from .library import KernelCode, compile_library, library_of
from .process import AHEAD, Worker
from .shared_queue import SharedQueue
from .shares import bytecode, in_order, module_bytecode, slowest_first
from .team import joined_team
from .worker import compile_apart

_TELL_SECONDS = 0.2
"""Seconds between two events while only workers compile."""


@dataclass
class KernelPool:
    """Compiles kernels, in this process and in workers.

    Attributes:
        target: the machine to generate code for, as `Target.parse` takes it.
        threads: how many kernels LLVM compiles at once where there are no workers.
        workers: the other processes.
        queue: what they take from.
        claims: what one of them compiles of its own accord.
        listeners: the threads that wait for workers' answers.
    """

    target: str
    threads: int = 1
    workers: Sequence[Worker] = ()
    queue: SharedQueue | None = None
    claims: Claims | None = None
    listeners: list[_Listener] = field(default_factory=list)

    def look_ahead(self, module: ir.Module, shapes: Sequence[Sequence[int]], without: Sequence[str]) -> None:
        """Has a worker, if there is one, begin with kernels that the first part of a model is likely to have.

        Args:
            module: the model, in the phase `import`.
            shapes: those of its inputs.
            without: the names of passes to leave out on the way to the phase `graph`.
        """
        if self.claims is None or not self.workers or is_recording():
            return
        with suppress(OSError):  # all is compiled later
            self.claims.put(module_bytecode(module))
            self.workers[0].go_ahead(Outlook(self.target, tuple(map(tuple, shapes)), tuple(without)))

    def compile(self, kernels: Sequence[ir.Operation]) -> dict[str, KernelCode]:
        """The code of kernels as `stepwell-form-kernels` makes them, by name.

        Raises:
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM refused a kernel.
        """
        if is_recording():
            return self._compile_one_by_one(kernels)
        told = progress.current()
        if told is not None and told.is_heard:
            told.tell("kernels", 0, len(kernels))
        codes = self._compile(kernels, told)
        if told is not None and told.is_heard:
            told.tell("kernels", len(kernels), len(kernels))
        return codes

    def _compile(self, kernels: Sequence[ir.Operation], told: progress.Told | None) -> dict[str, KernelCode]:
        is_heard = told is not None and told.is_heard
        if (self.queue is None or not self.workers) and not is_heard:
            return compile_library(library_of(kernels), self.target, self.threads) if kernels else {}
        if self.queue is None or not self.workers:
            codes: dict[str, KernelCode] = {}
            for share in in_order(kernels):
                codes |= compile_library(library_of(share), self.target, self.threads)
                _tell(told, len(codes))
            return codes
        claimed = self.claims.settle() if self.claims is not None else set()
        asked = [kernel for kernel in kernels if invariants.symbol(kernel) not in claimed]
        libraries = list(map(bytecode, slowest_first(asked, 1 + len(self.workers))))
        try:
            self.queue.fill(libraries)
        except OSError:
            return self._compile_all_here([bytecode(kernels)])
        listeners = self._share_queue()
        done: dict[int, dict[str, KernelCode]] = {}
        while (library := self.queue.take()) is not None:
            done[library.number] = self._compile_here(library.data)
            _tell(told, _count(done, listeners))
        if len(done) == len(libraries) and not claimed:
            # Workers that have taken no library, maybe because they have not started yet, owe no answer.
            known = {name: code for codes in done.values() for name, code in codes.items()}
            return {name: known[name] for name in map(invariants.symbol, kernels)}
        ahead: dict[str, KernelCode] = {}
        for listener in listeners:
            while is_heard and listener.is_alive():
                listener.join(_TELL_SECONDS)
                _tell(told, _count(done, listeners))
            listener.join()
            ahead |= listener.done.pop(AHEAD, {})
            done |= listener.done | {index: self._compile_here(libraries[index]) for index in listener.failed}
        for index, library in enumerate(libraries):
            if index not in done:  # the worker that took it has ended
                done[index] = self._compile_apart(library)
        codes = {name: code for index in sorted(done) for name, code in done[index].items()}
        known = codes | ahead
        missing = [kernel for kernel in kernels if invariants.symbol(kernel) not in known]
        if missing:  # the worker that claimed them failed, or has ended
            known |= self._compile_apart(bytecode(missing))
        return {name: known[name] for name in map(invariants.symbol, kernels)}

    def _share_queue(self) -> list[_Listener]:
        """Has all workers take libraries from the queue; what waits for their answers.

        A worker that has not begun with the last queue takes from this one instead, and its listener hears of it.
        """
        self.listeners = [listener for listener in self.listeners if listener.is_alive()]
        asked = [listener.worker for listener in self.listeners]
        for worker in self.workers:
            if worker not in asked and worker.share(self.target):
                self.listeners.append(_Listener(worker))
                self.listeners[-1].start()
        return self.listeners

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
            alone = bytecode([kernel])
            code = compile_apart(alone, self.target)
            done |= self._compile_here(alone) if code is None else code
        return done


def _count(done: Mapping[int, dict[str, KernelCode]], listeners: Sequence[_Listener]) -> int:
    """The number of kernels compiled so far, here and by workers."""
    theirs = {index: code for listener in listeners for index, code in listener.done.copy().items() if index != AHEAD}
    ahead = [listener.done.get(AHEAD, {}) for listener in listeners]
    return sum(map(len, ({**done, **theirs}).values())) + sum(map(len, ahead))


def _tell(told: progress.Told | None, done: int) -> None:
    if told is not None and told.is_heard:
        told.tell("kernels", min(done, told.event.total))


class _Listener(threading.Thread):
    """Hears what becomes of the libraries that a worker takes."""

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
            return  # what it has not answered for is left to whoever asked


@contextmanager
def kernel_pool(target: str, processes: int) -> Iterator[KernelPool]:
    """A pool of up to so many processes, this one counted: no more than there are processors."""
    with joined_team(processes) as team:
        yield KernelPool(target, processes, team.workers, team.queue, team.claims)
