"""Searches on workers of a Dask cluster, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from stepwell.driver.options import Options
from stepwell.driver.sources.reading import read_source
from stepwell.tuning.database import Database
from stepwell.tuning.distributed.cluster import on_cluster
from stepwell.tuning.distributed.job import TuningJob
from stepwell.tuning.distributed.search import search_on_cluster
from stepwell.tuning.errors import TuningError
from stepwell.tuning.options import TuningOptions
from stepwell.tuning.session import SearchProgress

from .. import graphs

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")

pytestmark = pytest.mark.sweep
SHORT = TuningOptions(seconds=None, trials=6, threads=1, searcher="evolution", turns=6)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    with running("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show",
                 "--scheduler-file", str(tmp_path / "scheduler.json")):  # fmt: skip
        limit = time.monotonic() + 60
        while not (tmp_path / "scheduler.json").exists():
            assert time.monotonic() < limit
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(tmp_path / "scheduler.json"), set_as_default=False) as client:
            yield client.scheduler.address


class running:
    """A process of the cluster, which is ended with the block."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", module, *arguments], stderr=subprocess.DEVNULL)

    def __enter__(self) -> subprocess.Popen:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def worker(scheduler: str, folder: Path) -> running:
    return running("distributed.cli.dask_worker", scheduler, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                   "--local-directory", str(folder))  # fmt: skip


def wait_for(scheduler: str, count: int) -> None:
    with distributed.Client(scheduler, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


def job_of(path: Path) -> TuningJob:
    source = read_source(str(path))
    shapes = {info.name: info.shape for info in source.interface()[0]}
    inputs = [np.random.default_rng(0).random(shape, np.float32) for shape in shapes.values()]
    return TuningJob(source, "cpu", Options(codegen_threads=1), shapes, inputs, 1, SHORT.turns)


def test_a_worker_that_is_killed_loses_no_other_trial(scheduler: str, tmp_path: Path) -> None:
    job, database = job_of(graphs.images(tmp_path / "model.onnx")), Database(tmp_path / "trials.sqlite")
    with worker(scheduler, tmp_path), worker(scheduler, tmp_path) as killed:
        wait_for(scheduler, 2)
        steps: list[str] = []
        killer = threading.Timer(0.3, killed.kill)

        def listen(progress: SearchProgress) -> None:
            steps.append(progress.step)
            if progress.step.startswith("measuring") and progress.trials and killer.ident is None:
                killer.start()

        (result,) = search_on_cluster(scheduler, job, database, SHORT, listen)
    killer.join()
    assert killed.wait() == -signal.SIGKILL
    assert any(step.endswith("on 2 workers") for step in steps)
    assert result.trials == SHORT.trials
    kept = Database(database.path).trials()
    assert len(kept) >= result.trials and all(trial.status == "ok" for trial in kept)
    assert {trial.conditions.threads for trial in kept} == {1}


def test_workers_of_other_machines_have_searches_of_their_own(scheduler: str, tmp_path: Path) -> None:
    """The second worker describes itself as another machine, by a target that it is told."""
    job, database = job_of(graphs.product(tmp_path / "model.onnx")), Database(tmp_path / "trials.sqlite")
    with worker(scheduler, tmp_path), other(scheduler, tmp_path):
        wait_for(scheduler, 2)
        results = search_on_cluster(scheduler, job, database, SHORT, lambda progress: None)
    machines = {result.conditions.machine for result in results}
    assert len(machines) == len(results) == 2
    names = [{course.kernel.name for course in result.courses} for result in results]
    assert names[0].isdisjoint(names[1])
    assert {trial.conditions.machine for trial in Database(database.path).trials()} == machines


def other(scheduler: str, folder: Path) -> running:
    """A worker whose machine is described as x86-64-v3."""
    (folder / "preload.py").write_text(
        "from dataclasses import replace\n"
        "from stepwell.tuning.distributed import cluster\n"
        "def opened(job, open_job=cluster._host):\n"
        "    return open_job(replace(job, target='x86-64-v3'))\n"
        "if cluster._host.__name__ != 'opened':\n"  # Dask runs this file twice
        "    cluster._host = opened\n"
    )
    return running("distributed.cli.dask_worker", scheduler, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                   "--local-directory", str(folder), "--preload", str(folder / "preload.py"))  # fmt: skip


def test_a_scheduler_that_is_not_there_or_has_no_workers(scheduler: str, tmp_path: Path) -> None:
    job = job_of(graphs.product(tmp_path / "model.onnx"))
    with pytest.raises(TuningError, match="has no workers: start some by 'dask worker"), on_cluster(scheduler, job):
        pass
    with pytest.raises(TuningError, match="no scheduler answers at nowhere"), on_cluster("nowhere", job):
        pass
