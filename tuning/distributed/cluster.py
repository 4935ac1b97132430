"""Searches on the workers of a Dask cluster (https://distributed.dask.org): one for each kind of machine.

A worker is asked for one batch of candidates at a time, which its process of trials compiles and measures. If a worker
is lost, Dask gives its batch to another one of its kind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...driver.caching.fingerprint import fingerprint
from ...support.packages import require_package
from ..children import TrialFailure
from ..errors import TuningError
from ..model import RemoteModel, Schedules
from ..trials import TrialResults
from .job import BatchResults, CandidateBatch, OpenedJob, TuningJob
from .trial_host import TrialHost

_WAIT_SECONDS = 1.0
"""Time after which it is checked whether there are workers left: a choice."""
_CONNECT_SECONDS = 10
"""Time for the connection to a scheduler: a choice."""

_hosts: dict[str, tuple[TrialHost, OpenedJob]] = {}
"""In a worker: the process of trials of each job, and its answer to it."""
_lock = threading.Lock()


@dataclass
class ClusterTrials:
    """Trials on the workers of one kind; see `TrialRunner`.

    Attributes:
        client: the connection to the scheduler.
        job: the job.
        sent: the job on the cluster.
        workers: addresses of the workers.
        opened: the job on one of them.
        longest: see `TrialRunner`.
    """

    client: Any
    job: TuningJob
    sent: Any
    workers: Sequence[str]
    opened: OpenedJob
    longest: float = field(default=0.0)

    @property
    def lanes(self) -> int:
        """One batch for each worker that is left."""
        return max(1, len(self._left()))

    @property
    def model(self) -> RemoteModel:
        """The model on these machines."""
        return RemoteModel(self.opened.machine, self.opened.kernels)

    def prepare(self) -> dict[str, float]:
        """Returns the times that a worker measured when it opened the model."""
        return dict(self.opened.times)

    def run(
        self, batches: Sequence[Schedules], best: Mapping[str, float], turns: int, tell: Callable[[str], None]
    ) -> list[TrialResults]:
        """See `TrialRunner`.

        Raises:
            TuningError: all workers are lost.
        """
        left = self._left()
        tell(f"measuring {sum(map(len, batches))} on {len(left)} workers")
        asked = [self._ask(CandidateBatch(schedules, best, turns)) for schedules in batches]
        try:
            found = [self._result(batch, future) for batch, future in asked]
        finally:
            self.client.cancel([future for _, future in asked])
        self.longest = max([self.longest, *(item.seconds for item in found if isinstance(item, BatchResults))])
        return [
            dict.fromkeys(schedules, item) if isinstance(item, TrialFailure) else item.results
            for schedules, item in zip(batches, found, strict=True)
        ]

    def _ask(self, batch: CandidateBatch) -> tuple[CandidateBatch, Any]:
        return batch, self.client.submit(_measure, self.sent, batch, workers=list(self.workers), pure=False)

    def _result(self, batch: CandidateBatch, future: Any) -> BatchResults | TrialFailure:
        """Returns the results of a batch, which is asked for again if they or the job were lost with a worker."""
        while True:
            try:
                return _result(self.client, future, self.workers)
            except CancelledError:
                if not self._left():
                    raise _lost(self.workers) from None
                self.sent = self.client.scatter(self.job, broadcast=True)
                _, future = self._ask(batch)

    def _left(self) -> list[str]:
        return _alive(self.client, self.workers)


def _alive(client: Any, workers: Sequence[str]) -> list[str]:
    """Returns those of some workers that are connected to the scheduler."""
    return [address for address in workers if address in client.scheduler_info(n_workers=-1)["workers"]]


def _lost(workers: Sequence[str]) -> TuningError:
    return TuningError(f"all workers of a kind of machine are lost: {', '.join(workers)}")


def _result(client: Any, future: Any, workers: Sequence[str]) -> Any:
    """Returns the result of work that some workers may do; a `TrialFailure` if several of them ended with it.

    Raises:
        TuningError: all workers are lost.
    """
    from distributed import KilledWorker

    while True:
        try:
            return future.result(timeout=_WAIT_SECONDS)
        except TimeoutError:
            if not _alive(client, workers):
                raise _lost(workers) from None
        except KilledWorker:
            return TrialFailure("workers ended while they measured it")


@contextmanager
def on_cluster(address: str, job: TuningJob) -> Iterator[list[ClusterTrials]]:
    """Opens a job on all workers of a cluster; yields the trials for each kind of machine.

    Args:
        address: the address of the scheduler, as "tcp://host:8786".
        job: the job.

    Raises:
        TuningError: there is no scheduler or worker, or a worker cannot run the job.
        MissingPackageError: the package `distributed` is not installed.
    """
    require_package("distributed", "--workers", "workers")
    from distributed import Client

    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise TuningError(f"no scheduler answers at {address}: start one by 'dask scheduler'") from error
    with client:
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        if not workers:
            raise TuningError(f"the scheduler at {address} has no workers: start some by 'dask worker {address}'")
        sent = client.scatter(job, broadcast=True)
        asked = {each: client.submit(_opened, sent, workers=[each], pure=False) for each in workers}
        try:
            kinds: dict[str, list[tuple[str, OpenedJob]]] = {}
            for each, future in asked.items():
                opened = _result(client, future, [each])
                if isinstance(opened, TrialFailure):
                    raise TuningError(f"the worker {each} cannot run the model: {opened.reason}")
                if opened.compiler != fingerprint():
                    raise TuningError(f"the worker {each} has another version of Stepwell")
                kinds.setdefault(opened.machine, []).append((each, opened))
            yield [ClusterTrials(client, job, sent, [each for each, _ in same], same[0][1]) for same in kinds.values()]
        finally:
            client.run(_close, job.key, on_error="ignore")


def _host(job: TuningJob) -> tuple[TrialHost, OpenedJob] | TrialFailure:
    """Returns the process of trials of a job in this worker; starts it if there is none."""
    if job.key not in _hosts or not _hosts[job.key][0].is_alive:
        host = TrialHost()
        opened = host.ask(job)
        if isinstance(opened, TrialFailure):
            host.close()
            return opened
        _hosts[job.key] = host, opened
    return _hosts[job.key]


def _opened(job: TuningJob) -> OpenedJob | TrialFailure:
    """Opens a job in a worker."""
    return _answer(job, lambda host, opened: opened)


def _measure(job: TuningJob, batch: CandidateBatch) -> BatchResults | TrialFailure:
    """Measures a batch in a worker."""
    return _answer(job, lambda host, opened: host.ask(batch))


def _answer(job: TuningJob, ask: Callable[[TrialHost, OpenedJob], Any]) -> Any:
    """Asks the process of trials of a job. Workers with several threads ask one after the other.

    Failures are returned: a client waits forever for an exception that cannot be sent.
    """
    with _lock:
        try:
            found = _host(job)
            return found if isinstance(found, TrialFailure) else ask(*found)
        except Exception as error:
            return TrialFailure(f"{type(error).__name__}: {error}")


def _close(key: str) -> None:
    with _lock:
        host, _ = _hosts.pop(key, (None, None))
        if host is not None:
            host.close()
