"""Compares the losses of many training steps: with those of eager PyTorch, with another run, and with other threads."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..support.packages import require_package
from ..training.optimizers import AdamW
from ..training.trainer import trainer
from .training import MODELS, RATE, check_names, torch_step

_BATCHES = 5
"""Number of batches that a curve goes through again and again: few enough to be learned."""
_THREADS = (1, 2)


@dataclass(frozen=True)
class CurveFigure:
    """The losses of one model.

    Attributes:
        model: name of the model, with its batch.
        steps: number of steps.
        first: loss of the first step.
        last: mean loss of the last steps, one for each batch.
        deviation: greatest difference from the losses of eager PyTorch.
        rounding: greatest difference between those and the losses of eager PyTorch in float64: the deviation that
            rounding alone causes.
        is_repeatable: whether all losses of a second training are the same bit by bit.
        is_same_on_threads: whether those with two threads are.
    """

    model: str
    steps: int
    first: float
    last: float
    deviation: float
    rounding: float
    is_repeatable: bool
    is_same_on_threads: bool


def curves(names: Sequence[str], steps: int, rows: int) -> Iterator[CurveFigure]:
    """Yields the comparison of each model's losses.

    Args:
        names: names of models; all if empty.
        steps: number of steps.
        rows: number of examples in a batch.

    Raises:
        OptionError: there is no such model.
        MissingPackageError: PyTorch is not installed.
    """
    check_names(MODELS, names, "model")
    require_package("torch", "the benchmark of training", "torch")
    for name in names or MODELS:
        yield _compared(name, steps, rows)


def _compared(name: str, steps: int, rows: int) -> CurveFigure:
    import torch

    from . import training_models

    torch.manual_seed(0)
    model = training_models.MODELS[name]
    module = model.make().train()
    batches = [model.batch(rows) for _ in range(_BATCHES)]

    def here(threads: int) -> list[float]:
        made = trainer(module, batches[0][:1], loss="cross_entropy", optimizer=AdamW(RATE), threads=threads)
        return _losses(made.step, batches, steps)

    def eager(dtype: Any) -> list[float]:
        given = [(x.to(dtype) if x.is_floating_point() else x, labels) for x, labels in batches]
        return _losses(torch_step(copy.deepcopy(module).to(dtype), None), given, steps)

    one, again, two = here(_THREADS[0]), here(_THREADS[0]), here(_THREADS[1])
    reference, exact = eager(torch.float32), eager(torch.float64)
    return CurveFigure(
        f"{name} {'x'.join(map(str, batches[0][0].shape))}",
        steps,
        one[0],
        sum(one[-_BATCHES:]) / min(_BATCHES, steps),
        _greatest_difference(one, reference),
        _greatest_difference(reference, exact),
        one == again,
        one == two,
    )


def _losses(step: Callable[[Any, Any], float], batches: Sequence[tuple[Any, Any]], steps: int) -> list[float]:
    return [step(*batches[place % len(batches)]) for place in range(steps)]


def _greatest_difference(found: Sequence[float], wanted: Sequence[float]) -> float:
    return max(abs(one - other) for one, other in zip(found, wanted, strict=True))
