"""Losses that compare embeddings with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects.stepwell.elementwise import AbsOp, EqualOp, MaximumOp, MinimumOp, PowOp, SqrtOp
from ...dialects.types import TensorSpec
from ...passes.differentiation.build import (
    add,
    compare,
    div,
    full,
    matmul,
    mul,
    select,
    square,
    sub,
    total,
    transpose,
    unary,
)
from ...passes.graph.values import constant, scalar_like
from ...passes.ir.values import shape_of
from ...runtime.program import Shape
from ...support.errors import OptionError
from .base import TARGET, Computed, WithReduction, reduced, weight_of
from .classification import CrossEntropy


def _alike(loss: object, outputs: Sequence[TensorSpec], rank: int = 2) -> None:
    """Checks that a loss takes outputs of one shape.

    Raises:
        OptionError: their shapes differ, or have another rank.
    """
    if any(item.shape != outputs[0].shape or item.rank != rank for item in outputs):
        found = ", ".join(map(str, outputs))
        raise OptionError(
            f"{type(loss).__name__}: the outputs must have one shape, of {rank} dimensions, but are {found}"
        )


@dataclass(frozen=True)
class Contrastive:
    """Cross entropy of the similarities of all pairs of two batches of embeddings, where equal rows belong together.

    The outputs are two batches of embeddings, [n, d]; there is no target. The similarity of two rows is their cosine,
    divided by the temperature. With `symmetric`, this is the loss of CLIP (Radford et al. 2021): the mean of the cross
    entropies along rows and along columns; without, InfoNCE (van den Oord et al. 2018) along rows.

    Rows are only compared with those of their own micro-batch or process.

    Attributes:
        temperature: the number that similarities are divided by. A model that learns it multiplies an output by its
            inverse itself, with a temperature of 1 and without `normalize`.
        symmetric: whether each row of the second output also looks for its row of the first.
        normalize: whether rows are divided by their norms.
    """

    temperature: float = 0.07
    symmetric: bool = True
    normalize: bool = True
    outputs: int = 2
    targets: Sequence[str] = ()
    is_sum: bool = False

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise OptionError(f"{self}: the temperature must be positive")

    def specs(self, outputs: Sequence[TensorSpec], shapes: Mapping[str, Shape]) -> Sequence[TensorSpec]:
        """None."""
        _alike(self, outputs)
        return []

    def compute(self, outputs: Sequence[ir.Value], targets: Sequence[ir.Value]) -> Computed:
        """Cross entropies of the similarities, with the row numbers as labels."""
        first, second = (self._scaled(item) for item in outputs)
        scores = div(matmul(first, second, transpose_rhs=True), self.temperature)
        rows = shape_of(scores)[0]
        labels, loss = constant(np.arange(rows)), CrossEntropy(axis=1)
        value = loss.build(scores, labels)
        if self.symmetric:
            value = mul(add(value, loss.build(transpose(scores, (1, 0)), labels)), 0.5)
        return Computed(value, weight_of(rows))

    def _scaled(self, rows: ir.Value) -> ir.Value:
        if not self.normalize:
            return rows
        norm = unary(SqrtOp, total(square(rows), [1]))
        # The smallest divisor of torch.nn.functional.normalize.
        return div(rows, MaximumOp(norm, scalar_like(1e-12, norm)).result)


@dataclass(frozen=True)
class CosineEmbedding(WithReduction):
    """One minus the cosine of two embeddings, or its excess over a margin (torch.nn.functional.cosine_embedding_loss).

    The outputs are two batches of embeddings, [n, d]. The target, f32 [n], is 1 for rows that belong together and -1
    for others.

    Attributes:
        margin: the greatest cosine of others that costs nothing.
        reduction: "mean", or "sum" for the sum.
    """

    margin: float = 0.0
    reduction: str = "mean"
    outputs: int = 2
    targets: Sequence[str] = (TARGET,)

    def specs(self, outputs: Sequence[TensorSpec], shapes: Mapping[str, Shape]) -> Sequence[TensorSpec]:
        """A number per row."""
        _alike(self, outputs)
        return [TensorSpec(outputs[0].shape[:1], np.dtype(np.float32))]

    def compute(self, outputs: Sequence[ir.Value], targets: Sequence[ir.Value]) -> Computed:
        """1 - cos where the target is 1, max(0, cos - margin) where it is -1, else 0"""
        first, second = outputs
        # The number that PyTorch adds to the squared norms.
        norms = [add(total(square(item), [1], keepdims=False), 1e-12) for item in outputs]
        product = total(mul(first, second), [1], keepdims=False)
        cosine = div(product, unary(SqrtOp, mul(*norms)))
        apart = sub(cosine, self.margin)
        apart = MaximumOp(apart, scalar_like(0, apart)).result
        losses = select(compare(EqualOp, targets[0], -1), apart, full(0, cosine))
        losses = select(compare(EqualOp, targets[0], 1), sub(1, cosine), losses)
        return Computed(reduced(losses, self.reduction), weight_of(shape_of(cosine)[0]))


@dataclass(frozen=True)
class TripletMargin(WithReduction):
    """The difference of two distances plus a margin, at least 0 (torch.nn.functional.triplet_margin_loss).

    The outputs are three batches of embeddings, [n, d]: anchors, positive and negative examples; there is no target.

    Attributes:
        margin: the difference of the distances that costs nothing.
        p: the exponent of the norm that is the distance.
        swap: whether the distance of the negative example is that from the positive one, if that is smaller.
        reduction: "mean", or "sum" for the sum.
    """

    margin: float = 1.0
    p: float = 2.0
    swap: bool = False
    reduction: str = "mean"
    outputs: int = 3
    targets: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.p >= 1:
            raise OptionError(f"{self}: p must be 1 or more")

    def specs(self, outputs: Sequence[TensorSpec], shapes: Mapping[str, Shape]) -> Sequence[TensorSpec]:
        """None."""
        _alike(self, outputs)
        return []

    def compute(self, outputs: Sequence[ir.Value], targets: Sequence[ir.Value]) -> Computed:
        """max(0, |anchor - positive| - |anchor - negative| + margin)"""
        anchor, positive, negative = outputs
        near, far = self._distance(anchor, positive), self._distance(anchor, negative)
        if self.swap:
            far = MinimumOp(far, self._distance(positive, negative)).result
        losses = add(sub(near, far), self.margin)
        losses = MaximumOp(losses, scalar_like(0, losses)).result
        return Computed(reduced(losses, self.reduction), weight_of(shape_of(near)[0]))

    def _distance(self, first: ir.Value, second: ir.Value) -> ir.Value:
        # The number that PyTorch adds to the difference, so that the root has a derivative.
        difference = add(sub(first, second), 1e-6)
        if self.p == 2:
            return unary(SqrtOp, total(square(difference), [1], keepdims=False))
        size = unary(AbsOp, difference)
        if self.p == 1:
            return total(size, [1], keepdims=False)
        powers = total(PowOp(size, full(self.p, size)).result, [1], keepdims=False)
        return PowOp(powers, full(1 / self.p, powers)).result
