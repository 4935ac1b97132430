"""The worker processes of one program's compile, which may start before its kernels are known.

Needs no MLIR, so that they start while this process imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from ...support.cores import available_cores
from .claims import Claims
from .process import Worker
from .shared_queue import SharedQueue

LARGE = 64
"""Number of ops from which a model takes longer to compile than another process takes to start."""


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


@contextmanager
def worker_pool(processes: int) -> Iterator[WorkerPool]:
    """Starts up to `processes` processes, including this one, but not more than there are processors.

    A worker lacks plug-ins that only this process has imported.
    """
    with ExitStack() as stack:
        pool = WorkerPool()
        count = min(processes, available_cores()) - 1
        with suppress(OSError):  # one process can do all the work
            for _ in range(count):
                if pool.claims is None:
                    pool.queue = SharedQueue()
                    stack.callback(pool.queue.close)
                    pool.claims = Claims()
                    stack.callback(pool.claims.close)
                worker = Worker(pool.queue, pool.claims)
                stack.callback(worker.close)
                pool.workers.append(worker)
        yield pool
