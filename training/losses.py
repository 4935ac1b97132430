"""Losses: each says what target a batch has, and writes stepwell ops that compute a number from output and target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from mlir import ir

from ..dialects.core import spec_of
from ..dialects.dims import numbers
from ..dialects.stepwell.elementwise import (
    CastOp,
    EqualOp,
    GreaterEqualOp,
    LessOp,
    NotOp,
    OrOp,
)
from ..dialects.stepwell.normalization import LogSoftmaxOp
from ..dialects.stepwell.reduction import ReduceMeanOp, ReduceSumOp
from ..dialects.types import TensorSpec
from ..passes.differentiation.build import both, compare, div, mul, neg, reshape, select, square, sub, total
from ..passes.graph.values import constant
from ..support.errors import OptionError


class Loss(Protocol):
    """A loss of an output and a target; both are part of a batch."""

    def target(self, output: TensorSpec) -> TensorSpec:
        """The shape and element type of the target, from those of the output.

        Raises:
            OptionError: the loss does not take such an output.
        """
        ...

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """Writes ops that compute the loss, of rank 0, at the insertion point."""
        ...


@dataclass(frozen=True)
class MeanSquaredError:
    """The mean of `(output - target) ** 2` (torch.nn.functional.mse_loss). The target is like the output."""

    def target(self, output: TensorSpec) -> TensorSpec:
        """The output's shape and element type."""
        return output

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """Computes the mean."""
        squares = square(sub(output, target))
        return ReduceMeanOp(squares, axes=tuple(range(spec_of(output).rank)), keepdims=False).result


@dataclass(frozen=True)
class CrossEntropy:
    """The mean of the negative logarithms of the labels' probabilities (torch.nn.functional.cross_entropy).

    The output has scores before the softmax. The target has i64 labels, and the output's shape without `axis`. A label
    that is no class, and not `ignore_index`, makes the loss NaN.

    Attributes:
        axis: the dimension of the classes.
        ignore_index: the label of elements that do not count.
        label_smoothing: the share of each label that is spread evenly over all classes.
    """

    axis: int = 1
    ignore_index: int = -100
    label_smoothing: float = 0.0

    def target(self, output: TensorSpec) -> TensorSpec:
        """i64 labels."""
        if not -output.rank <= self.axis < output.rank:
            raise OptionError(f"CrossEntropy: the output is {output}, and has no dimension {self.axis} of classes")
        axis = self.axis % output.rank
        return TensorSpec((*output.shape[:axis], *output.shape[axis + 1 :]), np.dtype(np.int64))

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """Computes the mean over the labels that count."""
        spec = spec_of(output)
        shape, axis = numbers(spec.shape), self.axis % spec.rank
        classes = shape[axis]
        scores = LogSoftmaxOp(output, axis=axis).result
        labels = reshape(target, (*shape[:axis], 1, *shape[axis + 1 :]))
        index = constant(np.arange(classes).reshape(-1, *[1] * (len(shape) - axis - 1)))
        losses = neg(total(select(EqualOp(index, labels).result, scores, 0), [axis]))
        if self.label_smoothing:
            even = neg(ReduceMeanOp(scores, axes=(axis,), keepdims=True).result)
            losses = _mixed(losses, even, self.label_smoothing)
        counts = NotOp(compare(EqualOp, labels, self.ignore_index)).result
        is_class = both(compare(GreaterEqualOp, labels, 0), compare(LessOp, labels, classes))
        is_valid = OrOp(is_class, NotOp(counts).result).result
        losses = select(counts, select(is_valid, losses, np.nan), 0)
        axes = tuple(range(len(shape)))
        number = ReduceSumOp(CastOp(counts, dtype=spec.dtype).result, axes=axes, keepdims=False).result
        return div(total(losses, axes, keepdims=False), number)


def _mixed(first: ir.Value, second: ir.Value, share: float) -> ir.Value:
    return sub(first, mul(sub(first, second), share))


LOSSES: dict[str, Loss] = {"cross_entropy": CrossEntropy(), "mse": MeanSquaredError()}
"""The losses that can be given by name."""


def loss_of(given: Loss | str | None) -> Loss | None:
    """Returns a loss; None for a model whose output is the loss.

    Raises:
        OptionError: there is no loss of that name.
    """
    if not isinstance(given, str):
        return given
    if given not in LOSSES:
        raise OptionError(f"loss: there is no '{given}'; there are {', '.join(LOSSES)}, and `Loss` objects")
    return LOSSES[given]
