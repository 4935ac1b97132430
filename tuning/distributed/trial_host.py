"""The process beside a worker in which candidates are compiled and measured.

`python -m stepwell.tuning.distributed.trial_host` answers pickled requests on its standard input. The worker itself has
threads, so that it cannot copy itself for each candidate.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO

from ...driver.caching.fingerprint import fingerprint
from ...driver.setup import Setup
from ...runtime.cache.cache import Cache
from ...support.cores import available_cores
from ...support.errors import StepwellError
from ..children import TrialFailure
from ..model import tunable_model
from ..trials import Trials
from .job import BatchResults, CandidateBatch, OpenedJob, TuningJob

_PROCESSES = 1
"""Number of processes that compile: workers measure, for which the other cores are kept free."""


class TrialHost:
    """A process of trials, as its worker sees it."""

    def __init__(self) -> None:
        """Starts it."""
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request: TuningJob | CandidateBatch) -> Any:
        """Returns the answer to a request: an `OpenedJob`, `BatchResults`, or a `TrialFailure`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)  # of a process of ours
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            return TrialFailure(f"the process of trials ended with exit code {self._process.returncode}")

    @property
    def is_alive(self) -> bool:
        """True if the process has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests until there are no more: first a job, then batches of it."""
    with ExitStack() as stack:
        trials: Trials | None = None
        while True:
            try:
                request = pickle.load(requests)  # of the worker that started this process
            except EOFError:
                return
            try:
                if isinstance(request, TuningJob):
                    trials, answer = _open(request, stack)
                else:
                    assert trials is not None, "a job comes first"
                    (results,) = trials.run([request.schedules], request.best, request.turns, lambda step: None)
                    answer = BatchResults(results, trials.longest)
            except StepwellError as error:
                answer = TrialFailure(" ".join(str(error).split()))
            pickle.dump(answer, answers)
            answers.flush()


def _open(job: TuningJob, stack: ExitStack) -> tuple[Trials, OpenedJob]:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-tune-"))
    setup = replace(Setup.of(job.target, job.options), cache=Cache(folder))
    model = stack.enter_context(tunable_model(job.source, job.shapes, setup, {}))
    threads = job.threads or available_cores()
    trials = Trials(model, job.inputs, threads, _PROCESSES, job.turns)
    times = trials.prepare()
    return trials, OpenedJob(model.machine, fingerprint(), threads, model.kernels, times)


def main() -> None:
    """Serves requests on the standard input. Other output of this process goes to the standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
