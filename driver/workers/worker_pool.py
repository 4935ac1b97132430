"""The worker processes of one program's compile, which may start before its kernels are known.

Needs no MLIR, so that they start while this process imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

from ...support.cores import available_cores
from .. import plugins
from .claims import Claims
from .process import Worker
from .shared_queue import SharedQueue

LARGE = 64
"""Models with at least this many ops take longer to compile than another process takes to start."""


@dataclass
class WorkerPool:
    """Workers, and the files that they share with this process.

    Attributes:
        workers: the worker processes.
        queue: the queue that they take libraries from.
        claims: the speculative compile of one of them.
    """

    workers: list[Worker] = field(default_factory=list)
    queue: SharedQueue | None = None
    claims: Claims | None = None


_waiting: ContextVar[WorkerPool | None] = ContextVar("waiting", default=None)


@contextmanager
def worker_pool(processes: int) -> Iterator[WorkerPool]:
    """Starts up to `processes` processes, including this one, but not more than there are processors."""
    with ExitStack() as stack:
        pool = WorkerPool()
        # A worker lacks plug-ins that only this process has imported.
        count = min(processes, available_cores()) - 1
        with suppress(OSError):  # one process can do all the work
            for _ in range(count if count > 0 and not plugins.fingerprint() else 0):
                if pool.claims is None:
                    pool.queue = SharedQueue()
                    stack.callback(pool.queue.close)
                    pool.claims = Claims()
                    stack.callback(pool.claims.close)
                worker = Worker(pool.queue, pool.claims)
                stack.callback(worker.close)
                pool.workers.append(worker)
        yield pool


@contextmanager
def waiting_pool(processes: int) -> Iterator[None]:
    """Starts workers in advance; the first `joined_pool` inside the block takes them over."""
    with worker_pool(processes) as pool:
        token = _waiting.set(pool if pool.workers else None)
        try:
            yield
        finally:
            _waiting.reset(token)


@contextmanager
def joined_pool(processes: int) -> Iterator[WorkerPool]:
    """The waiting pool, if there is one and more than one process is requested; else a new one."""
    pool = _waiting.get() if processes > 1 else None
    if pool is None:
        with worker_pool(processes) as made:
            yield made
        return
    token = _waiting.set(None)
    try:
        yield pool
    finally:
        _waiting.reset(token)
