"""Training: gradients of models and their losses, and steps of optimisers, compiled ahead of time."""

from __future__ import annotations

from .export import with_weights
from .losses import CrossEntropy, Loss, MeanSquaredError
from .optimizers import SGD, Adam, AdamW, Optimizer
from .trainer import trainer
from .value_and_grad import ValueAndGrad, value_and_grad

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "CrossEntropy",
    "Loss",
    "MeanSquaredError",
    "Optimizer",
    "ValueAndGrad",
    "trainer",
    "value_and_grad",
    "with_weights",
]
