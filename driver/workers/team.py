"""The worker processes of one program's compile, which may start before its kernels are known.

Needs no MLIR, so that they start while this process imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

from ...runtime.cores import available_cores
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
def team_of(processes: int) -> Iterator[WorkerPool]:
    """Starts up to `processes` processes, including this one, but not more than there are processors."""
    with ExitStack() as stack:
        team = WorkerPool()
        # A worker lacks plug-ins that only this process has imported.
        count = min(processes, available_cores()) - 1
        with suppress(OSError):  # one process can do all the work
            for _ in range(count if count > 0 and not plugins.fingerprint() else 0):
                if team.claims is None:
                    team.queue = SharedQueue()
                    stack.callback(team.queue.close)
                    team.claims = Claims()
                    stack.callback(team.claims.close)
                worker = Worker(team.queue, team.claims)
                stack.callback(worker.close)
                team.workers.append(worker)
        yield team


@contextmanager
def waiting_team(processes: int) -> Iterator[None]:
    """Starts workers in advance; the first `joined_team` inside the block takes them over."""
    with team_of(processes) as team:
        token = _waiting.set(team if team.workers else None)
        try:
            yield
        finally:
            _waiting.reset(token)


@contextmanager
def joined_team(processes: int) -> Iterator[WorkerPool]:
    """The waiting team, if there is one and more than one process is requested; else a new one."""
    team = _waiting.get() if processes > 1 else None
    if team is None:
        with team_of(processes) as made:
            yield made
        return
    token = _waiting.set(None)
    try:
        yield team
    finally:
        _waiting.reset(token)
