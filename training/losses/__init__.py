"""Losses: each says what targets a batch has, and writes stepwell ops that compute a number from these and outputs."""

from __future__ import annotations

from ...support.errors import OptionError
from .base import TARGET, Computed, Loss, LossOfMany, of_many
from .classification import NLL, BinaryCrossEntropy, CrossEntropy, KLDivergence
from .contrastive import Contrastive, CosineEmbedding, TripletMargin
from .ctc import CTC
from .regression import Huber, MeanAbsoluteError, MeanSquaredError, SmoothL1

LOSSES: dict[str, Loss | LossOfMany] = {
    "cross_entropy": CrossEntropy(),
    "nll": NLL(),
    "bce_with_logits": BinaryCrossEntropy(),
    "kl_div": KLDivergence(),
    "mse": MeanSquaredError(),
    "l1": MeanAbsoluteError(),
    "smooth_l1": SmoothL1(),
    "huber": Huber(),
    "contrastive": Contrastive(),
    "cosine_embedding": CosineEmbedding(),
    "triplet_margin": TripletMargin(),
    "ctc": CTC(),
}
"""The losses that can be given by name."""


def loss_of(given: Loss | LossOfMany | str | None) -> Loss | LossOfMany | None:
    """Returns a loss; None for a model whose output is the loss.

    Raises:
        OptionError: there is no loss of that name.
    """
    if not isinstance(given, str):
        return given
    if given not in LOSSES:
        raise OptionError(f"loss: there is no '{given}'; there are {', '.join(LOSSES)}, and `Loss` objects")
    return LOSSES[given]


__all__ = [
    "CTC",
    "NLL",
    "TARGET",
    "BinaryCrossEntropy",
    "Computed",
    "Contrastive",
    "CosineEmbedding",
    "CrossEntropy",
    "Huber",
    "KLDivergence",
    "Loss",
    "LossOfMany",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "SmoothL1",
    "TripletMargin",
    "loss_of",
    "of_many",
]
