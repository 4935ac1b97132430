"""Searches of one model on all kinds of machines of a cluster at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ...targets.registry import is_cpu
from ..database import Database
from ..errors import TuningError
from ..options import TuningOptions
from ..session import SearchProgress, SearchResult, TuningSession
from .cluster import ClusterTrials, on_cluster
from .job import TuningJob


def search_on_cluster(
    address: str,
    job: TuningJob,
    database: Database,
    options: TuningOptions,
    listener: Callable[[SearchProgress], None],
    profile: Mapping[str, float] | None = None,
) -> list[SearchResult]:
    """Searches for schedules on all workers of a cluster; returns the result for each kind of machine.

    Ctrl-C ends all searches early.

    Args:
        address: the address of the scheduler.
        job: the model.
        database: keeps the trials, of all machines.
        options: how to search.
        listener: called with the progress of each search.
        profile: seconds of each kernel in real calls, by its name; None to measure them.

    Raises:
        TuningError: the target is no CPU, the cluster cannot be reached, or has lost all workers of a kind.
        MissingPackageError: the package `distributed` is not installed.
    """
    if not is_cpu(job.target):
        raise TuningError(f"target {job.target}: workers measure code for CPUs only; leave --workers out")
    lock, stopped = threading.Lock(), threading.Event()

    def tell(progress: SearchProgress) -> None:
        with lock:
            listener(progress)

    def search(trials: ClusterTrials) -> SearchResult:
        known = replace(options, threads=trials.opened.threads)
        # A connection to the database is of one thread.
        own = Database(database.path)
        return TuningSession(trials.model, job.inputs, own, known, tell, profile, trials, stopped.is_set).run()

    with on_cluster(address, job) as kinds, ThreadPoolExecutor(len(kinds)) as pool:
        running = [pool.submit(search, trials) for trials in kinds]
        try:
            return [future.result() for future in running]
        except KeyboardInterrupt:
            stopped.set()
            return [future.result() for future in running]
