"""Requests to a worker, and its answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...driver.options import Options
from ...driver.sources.source import ModelSource
from ...runtime.program import Shape
from ..model import Schedules, TunableKernel
from ..trials import TrialResults


@dataclass(frozen=True)
class TuningJob:
    """A model to be tuned, and how its calls are measured.

    Attributes:
        source: the model. Weights in files beside it must be at the same path on all workers.
        target: the target of its code.
        options: options of its compile.
        shapes: the shapes of its inputs.
        inputs: the inputs of the calls that are measured.
        threads: number of threads of a call; None for one for each core of the worker.
        turns: maximum number of turns of a trial.
        key: identifies the job.
    """

    source: ModelSource
    target: str
    options: Options
    shapes: Mapping[str, Shape]
    inputs: Sequence[np.ndarray]
    threads: int | None
    turns: int
    key: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class OpenedJob:
    """The model of a job on a worker.

    Attributes:
        machine: the description of the worker's machine.
        compiler: the version of the compiler there.
        threads: number of threads of a call.
        kernels: the kernels that have a search space, by name.
        times: nanoseconds of each kernel with default schedules, and of a whole call by `WHOLE`.
    """

    machine: str
    compiler: str
    threads: int
    kernels: Mapping[str, TunableKernel]
    times: Mapping[str, float]


@dataclass(frozen=True)
class CandidateBatch:
    """Candidates to be measured in one program.

    Attributes:
        schedules: the parameters of a candidate of some kernels.
        best: the gain by kernel that a candidate must exceed.
        turns: maximum number of turns.
    """

    schedules: Schedules
    best: Mapping[str, float]
    turns: int


@dataclass(frozen=True)
class BatchResults:
    """The outcomes of a batch.

    Attributes:
        results: the outcomes by kernel.
        seconds: duration of the longest measurement of the usual number of turns so far.
    """

    results: TrialResults
    seconds: float
