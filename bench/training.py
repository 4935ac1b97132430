"""Measures training steps: forward pass, loss, backward pass and AdamW, here and by PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
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
_RATE, _LABELS = 1e-3, 10


@dataclass(frozen=True)
class TrainingFigure:
    """The steps of one model by one system.

    Attributes:
        model: name of the model, with its batch.
        system: name of the system.
        first: seconds of the first step, compiles included.
        step: median seconds of a step.
        loss: loss after the warm-up, which shows whether systems compute the same.
    """

    model: str
    system: str
    first: float
    step: float
    loss: float


def _mlp(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, _LABELS))


def _cnn(nn: Any) -> Any:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, _LABELS)),
    )


def _normed(nn: Any) -> Any:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.Conv2d(64, 64, 1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, _LABELS)),
    )


def _encoder(nn: Any) -> Any:
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True, activation="gelu")
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(encoder, nn.Flatten(), nn.Linear(32 * 128, _LABELS))


MODELS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "mlp": (_mlp, (128, 784)),
    "cnn": (_cnn, (64, 1, 28, 28)),
    "batch-norm-cnn": (_normed, (16, 3, 32, 32)),
    "encoder": (_encoder, (8, 32, 128)),
}
"""The models by name: a function of `torch.nn`, and the shape of a batch."""


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
    for known, wanted, kind in ((MODELS, names, "model"), (PEERS, peers, "system")):
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise OptionError(f"there is no {kind} '{unknown[0]}'; there are {', '.join(known)}")
    require_package("torch", "the benchmark of training", "torch")
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(threads, available_cores()))
    try:
        for name in names or MODELS:
            yield from _measured(name, peers, threads, rounds)
    finally:
        torch.set_num_threads(before)


def _measured(name: str, peers: Sequence[str], threads: int, rounds: int) -> list[TrainingFigure]:
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()  # the code of a class of modules is compiled once more if its sizes change
    make, shape = MODELS[name]
    module = make(torch.nn).train()
    x, labels = torch.randn(shape), torch.randint(0, _LABELS, shape[:1])
    here = trainer(module, (x,), loss="cross_entropy", optimizer=AdamW(_RATE), threads=threads)
    steps: dict[str, Callable[[], float]] = {HERE: lambda: here.step(x, labels)}
    for peer in peers:
        steps[peer] = _torch_step(copy.deepcopy(module), x, labels, _BACKENDS[peer])
    first = {system: _timed(step)[0] for system, step in steps.items()}
    losses = {system: [step() for _ in range(3)][-1] for system, step in steps.items()}
    times: dict[str, list[float]] = {system: [] for system in steps}
    for _ in range(rounds):
        for system, step in steps.items():
            times[system] += [_timed(step)[0] for _ in range(3)]
    title = f"{name} {'x'.join(map(str, shape))}"
    return [
        TrainingFigure(title, system, first[system], statistics.median(times[system]), losses[system])
        for system in steps
    ]


def _torch_step(module: Any, x: Any, labels: Any, backend: str | None) -> Callable[[], float]:
    import torch

    optimizer = torch.optim.AdamW(module.parameters(), _RATE)
    forward = torch.compile(module, backend=backend) if backend else module

    def step() -> float:
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
