"""The processes that compile one program's kernels together, which may start before it is known which these are.

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
"""Models of so many ops take longer to compile than another process takes to start."""


@dataclass
class Team:
    """Workers, and what they share with this process.

    Attributes:
        workers: the other processes.
        queue: what they take libraries from.
        claims: what one of them compiles of its own accord.
    """

    workers: list[Worker] = field(default_factory=list)
    queue: SharedQueue | None = None
    claims: Claims | None = None


_waiting: ContextVar[Team | None] = ContextVar("waiting", default=None)


@contextmanager
def team_of(processes: int) -> Iterator[Team]:
    """Starts up to so many processes, this one counted: no more than there are processors."""
    with ExitStack() as stack:
        team = Team()
        # Another process has no code of plug-ins that only this one has imported.
        helpers = min(processes, available_cores()) - 1
        with suppress(OSError):  # one process does as well
            for _ in range(helpers if helpers > 0 and not plugins.fingerprint() else 0):
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
    """Starts a team, which whoever first asks for one meanwhile is given."""
    with team_of(processes) as team:
        token = _waiting.set(team if team.workers else None)
        try:
            yield
        finally:
            _waiting.reset(token)


@contextmanager
def joined_team(processes: int) -> Iterator[Team]:
    """The team that waits, if one does and more than this process is wanted; else a new one."""
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
