"""The choices that define a training, and the names of the arrays of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..runtime.trainer import LOSS, LOSS_WEIGHT, RATE, SCALE, SKIPPED, STEP
from ..runtime.training_step import COUNT, KEY, SUM, WEIGHT
from .losses import Loss, LossOfMany
from .optimizers import Group, Optimizer
from .scaling import LossScale
from .schedules import RateSchedule

GOOD = "good_steps"
"""Name of the state that is the number of steps since the factor of the loss changed."""

__all__ = ["COUNT", "GOOD", "KEY", "LOSS", "LOSS_WEIGHT", "RATE", "SCALE", "SKIPPED", "STEP", "SUM", "WEIGHT", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """Choices that define a training.

    Attributes:
        loss: the loss; None if the first output of the model is the loss.
        wrt: names, or patterns of names, of the parameters to train; None for all that the model trains by default.
        optimizer: the rule by which parameters change; None to return gradients.
        groups: parameters with other rules.
        schedule: the factor of the learning rate in each step; None for 1.
        clip_norm: the greatest norm of all gradients together; None for any.
        scaling: the factor of the loss during the backward pass; None for 1.
        accumulate: number of micro-batches of a step.
        is_shared: whether the gradients of several processes are added.
        divide_loops: whether long loops are divided, so that the backward pass saves few of the values they carry.
    """

    loss: Loss | LossOfMany | None
    wrt: Sequence[str] | None = None
    optimizer: Optimizer | None = None
    groups: Sequence[Group] = ()
    schedule: RateSchedule | None = None
    clip_norm: float | None = None
    scaling: LossScale | None = None
    accumulate: int = 1
    is_shared: bool = False
    divide_loops: bool = False

    @property
    def is_split(self) -> bool:
        """True if gradients are summed before the step, so that a program of its own takes it."""
        return self.accumulate > 1 or self.is_shared
