"""Measures training steps: forward pass, loss, backward pass and AdamW, here and by PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..support.cores import available_cores
from ..support.errors import OptionError
from ..support.packages import require_package
from ..training.optimizers import AdamW
from ..training.trainer import trainer

HERE = "stepwell"
_BACKENDS = {"torch eager": None, "torch inductor": "inductor", "torch stepwell": HERE}
"""The backends of torch.compile by system."""
PEERS = tuple(_BACKENDS)
RATE = 1e-3
"""The learning rate: the default of AdamW."""


@dataclass(frozen=True)
class TrainingFigure:
    """The steps of one model by one system.

    Attributes:
        model: name of the model, with its batch.
        system: name of the system.
        first: seconds of the first step, compiles included; no system reads or writes a cache of compiled code.
        step: median seconds of a step.
        loss: loss after the warm-up, which shows whether systems compute the same.
    """

    model: str
    system: str
    first: float
    step: float
    loss: float


MODELS = ("mlp", "cnn", "resnet-18", "mobilenet-v2", "unet", "vit-tiny", "bert-mini", "gpt2-mini", "lstm")
"""Names of the models of `training_models`."""


def measure(names: Sequence[str], peers: Sequence[str], threads: int, rounds: int) -> Iterator[TrainingFigure]:
    """Yields the figures of models; systems take turns of three steps, round by round.

    Args:
        names: names of models; all if empty.
        peers: names of other systems.
        threads: number of threads of a step.
        rounds: number of turns of each system.

    Raises:
        OptionError: there is no such model or system.
        MissingPackageError: PyTorch is not installed.
    """
    check_names(MODELS, names, "model")
    check_names(PEERS, peers, "system")
    require_package("torch", "the benchmark of training", "torch")
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(threads, available_cores()))
    try:
        for name in names or MODELS:
            yield from _measured(name, peers, threads, rounds)
    finally:
        torch.set_num_threads(before)


def check_names(known: Sequence[str], wanted: Sequence[str], kind: str) -> None:
    """Checks names of models or systems.

    Raises:
        OptionError: there is none of a name.
    """
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise OptionError(f"there is no {kind} '{unknown[0]}'; there are {', '.join(known)}")


def _measured(name: str, peers: Sequence[str], threads: int, rounds: int) -> list[TrainingFigure]:
    import torch
    from torch._inductor import config

    from . import training_models

    torch.manual_seed(0)
    torch._dynamo.reset()  # the code of a class of modules is compiled once more if its sizes change
    model = training_models.MODELS[name]
    module = model.make().train()
    x, labels = model.batch()
    options: dict[str, Any] = {"cache": False}
    here = trainer(module, (x,), loss="cross_entropy", optimizer=AdamW(RATE), threads=threads, options=options)
    steps: dict[str, Callable[[], float]] = {HERE: lambda: here.step(x, labels)}
    for peer in peers:
        step = torch_step(copy.deepcopy(module), _BACKENDS[peer])
        steps[peer] = functools.partial(step, x, labels)
    with config.patch(force_disable_caches=True):
        first = {system: _timed(step)[0] for system, step in steps.items()}
    losses = {system: [step() for _ in range(3)][-1] for system, step in steps.items()}
    times: dict[str, list[float]] = {system: [] for system in steps}
    for _ in range(rounds):
        for system, step in steps.items():
            times[system] += [_timed(step)[0] for _ in range(3)]
    title = f"{name} {'x'.join(map(str, model.shape))}"
    return [
        TrainingFigure(title, system, first[system], statistics.median(times[system]), losses[system])
        for system in steps
    ]


def torch_step(module: Any, backend: str | None) -> Callable[[Any, Any], float]:
    """Returns a function that takes a step of AdamW in PyTorch, and returns the loss before it.

    Args:
        module: the module.
        backend: the backend of torch.compile; None for eager PyTorch.
    """
    import torch

    optimizer = torch.optim.AdamW(module.parameters(), RATE)
    options: dict[str, Any] | None = {"cache": False} if backend == HERE else None
    forward = torch.compile(module, backend=backend, options=options) if backend else module

    def step(x: Any, labels: Any) -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(x), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _timed(step: Callable[[], float]) -> tuple[float, float]:
    start = time.perf_counter()
    loss = step()
    return time.perf_counter() - start, loss
