"""Training: gradients of models and their losses, and steps of optimisers, compiled ahead of time."""

from __future__ import annotations

from ..runtime.replicas import MpiGroup
from .export import with_weights
from .losses import (
    CTC,
    NLL,
    BinaryCrossEntropy,
    Contrastive,
    CosineEmbedding,
    CrossEntropy,
    Huber,
    KLDivergence,
    Loss,
    LossOfMany,
    MeanAbsoluteError,
    MeanSquaredError,
    SmoothL1,
    TripletMargin,
)
from .optimizers import SGD, Adam, AdamW, Group, Optimizer
from .scaling import LossScale
from .schedules import Cosine, Decay, Linear, RateSchedule
from .trainer import trainer
from .value_and_grad import ValueAndGrad, value_and_grad

__all__ = [
    "CTC",
    "NLL",
    "SGD",
    "Adam",
    "AdamW",
    "BinaryCrossEntropy",
    "Contrastive",
    "Cosine",
    "CosineEmbedding",
    "CrossEntropy",
    "Decay",
    "Group",
    "Huber",
    "KLDivergence",
    "Linear",
    "Loss",
    "LossOfMany",
    "LossScale",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "MpiGroup",
    "Optimizer",
    "RateSchedule",
    "SmoothL1",
    "TripletMargin",
    "ValueAndGrad",
    "trainer",
    "value_and_grad",
    "with_weights",
]
