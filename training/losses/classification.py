"""Losses of scores or logarithms of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects.core import spec_of
from ...dialects.dims import numbers
from ...dialects.stepwell.elementwise import (
    CastOp,
    EqualOp,
    GreaterEqualOp,
    GreaterOp,
    LessOp,
    LogOp,
    NotOp,
    OrOp,
    SoftplusOp,
)
from ...dialects.stepwell.normalization import LogSoftmaxOp
from ...dialects.types import TensorSpec
from ...passes.differentiation.build import (
    add,
    both,
    cast,
    compare,
    div,
    exp,
    literal,
    mul,
    neg,
    reshape,
    select,
    sub,
    total,
    unary,
)
from ...passes.graph.values import constant
from ...passes.ir.values import shape_of
from ...support.errors import OptionError
from .base import WithReduction, checked, count_of, reduced, weight_of


@dataclass(frozen=True)
class _Labels(WithReduction):
    axis: int = 1
    ignore_index: int = -100
    weights: Sequence[float] | None = None
    reduction: str = "mean"

    def target(self, output: TensorSpec) -> TensorSpec:
        """i64 labels."""
        kind = type(self).__name__
        if not -output.rank <= self.axis < output.rank:
            raise OptionError(f"{kind}: the output is {output}, and has no dimension {self.axis} of classes")
        axis = self.axis % output.rank
        if self.weights is not None and len(self.weights) != output.shape[axis]:
            raise OptionError(f"{kind}: there are {len(self.weights)} weights, but the output is {output}")
        return TensorSpec((*output.shape[:axis], *output.shape[axis + 1 :]), np.dtype(np.int64))

    def weight(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The sum of the weights of the labels that count."""
        return cast(self._number(output, self._labels(output, target)), np.dtype(np.float32))

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The mean over the labels that count, in proportion to their weights, or the sum."""
        shape, axis = numbers(spec_of(output).shape), self._axis(output)
        scores, labels = self._scores(output), self._labels(output, target)
        losses = neg(total(select(self._is_class(output, labels), self._weighed(output, scores), 0), [axis]))
        losses = self._smoothed(output, scores, losses)
        counts = self._counts(labels)
        is_class = both(compare(GreaterEqualOp, labels, 0), compare(LessOp, labels, shape[axis]))
        is_valid = OrOp(is_class, NotOp(counts).result).result
        losses = select(counts, select(is_valid, losses, np.nan), 0)
        added = total(losses, range(len(shape)), keepdims=False)
        return div(added, self._number(output, labels)) if self.reduction == "mean" else added

    def _scores(self, output: ir.Value) -> ir.Value:
        """The logarithms of probabilities."""
        raise NotImplementedError

    def _smoothed(self, output: ir.Value, scores: ir.Value, losses: ir.Value) -> ir.Value:
        return losses

    def _axis(self, output: ir.Value) -> int:
        return self.axis % spec_of(output).rank

    def _labels(self, output: ir.Value, target: ir.Value) -> ir.Value:
        shape, axis = numbers(spec_of(output).shape), self._axis(output)
        return reshape(target, (*shape[:axis], 1, *shape[axis + 1 :]))

    def _counts(self, labels: ir.Value) -> ir.Value:
        return NotOp(compare(EqualOp, labels, self.ignore_index)).result

    def _is_class(self, output: ir.Value, labels: ir.Value) -> ir.Value:
        index = np.arange(shape_of(output)[self._axis(output)])
        return EqualOp(constant(self._along(output, index)), labels).result

    def _weighed(self, output: ir.Value, values: ir.Value) -> ir.Value:
        """Values of all classes times the weights of these."""
        if self.weights is None:
            return values
        return mul(values, literal(self._along(output, np.array(self.weights)), values))

    def _number(self, output: ir.Value, labels: ir.Value) -> ir.Value:
        """The sum of the weights of the labels that count."""
        counts = CastOp(self._counts(labels), dtype=spec_of(output).dtype).result
        if self.weights is not None:
            own = literal(self._along(output, np.array(self.weights)), output)
            counts = mul(counts, total(select(self._is_class(output, labels), own, 0), [self._axis(output)]))
        return total(counts, range(spec_of(output).rank), keepdims=False)

    def _along(self, output: ir.Value, array: np.ndarray) -> np.ndarray:
        """An array of one number per class, in a shape that broadcasts to the output."""
        return array.reshape(-1, *[1] * (spec_of(output).rank - self._axis(output) - 1))


@dataclass(frozen=True)
class CrossEntropy(_Labels):
    """The mean of the negative logarithms of the labels' probabilities (torch.nn.functional.cross_entropy).

    The output has scores before the softmax. The target has i64 labels, and the output's shape without `axis`. A label
    that is no class, and not `ignore_index`, makes the loss NaN.

    Attributes:
        axis: the dimension of the classes.
        ignore_index: the label of elements that do not count.
        weights: the weight of each class; None for 1.
        reduction: "mean", or "sum" for the sum.
        label_smoothing: the share of each label that is spread evenly over all classes.
        probabilities: whether the target has a probability for each class, in the output's shape and element type,
            instead of labels; all elements count.
    """

    label_smoothing: float = 0.0
    probabilities: bool = False

    def target(self, output: TensorSpec) -> TensorSpec:
        """i64 labels, or probabilities."""
        labels = super().target(output)
        return output if self.probabilities else labels

    def weight(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The sum of the weights of the labels that count, or the number of elements."""
        if self.probabilities:
            return weight_of(count_of(output) / shape_of(output)[self._axis(output)])
        return super().weight(output, target)

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The mean over the labels that count, in proportion to their weights, or the sum."""
        if not self.probabilities:
            return super().build(output, target)
        classes = shape_of(output)[self._axis(output)]
        if self.label_smoothing:
            target = add(mul(target, 1 - self.label_smoothing), self.label_smoothing / classes)
        added = neg(reduced(mul(target, self._weighed(output, self._scores(output))), "sum"))
        return div(added, count_of(output) / classes) if self.reduction == "mean" else added

    def _scores(self, output: ir.Value) -> ir.Value:
        return LogSoftmaxOp(output, axis=self._axis(output)).result

    def _smoothed(self, output: ir.Value, scores: ir.Value, losses: ir.Value) -> ir.Value:
        if not self.label_smoothing:
            return losses
        axis = self._axis(output)
        even = neg(total(self._weighed(output, scores), [axis]))
        share = self.label_smoothing / shape_of(output)[axis]
        return add(mul(losses, 1 - self.label_smoothing), mul(even, share))


@dataclass(frozen=True)
class NLL(_Labels):
    """The mean of the negative logarithms that labels select (torch.nn.functional.nll_loss).

    The output has logarithms of probabilities. The target has i64 labels, and the output's shape without `axis`. A
    label that is no class, and not `ignore_index`, makes the loss NaN.

    Attributes:
        axis: the dimension of the classes.
        ignore_index: the label of elements that do not count.
        weights: the weight of each class; None for 1.
        reduction: "mean", or "sum" for the sum.
    """

    def _scores(self, output: ir.Value) -> ir.Value:
        return output


@dataclass(frozen=True)
class BinaryCrossEntropy(WithReduction):
    """Cross entropy of two classes per element (torch.nn.functional.binary_cross_entropy_with_logits).

    The output has scores before the sigmoid. The target is like the output, and has the probability of the first class.

    Attributes:
        positive_weight: factor of the losses of the first class (`pos_weight`), or one for each index of the last
            dimension.
        reduction: "mean", or "sum" for the sum.
    """

    positive_weight: float | Sequence[float] = 1.0
    reduction: str = "mean"

    def target(self, output: TensorSpec) -> TensorSpec:
        """The output's shape and element type."""
        factors = np.asarray(self.positive_weight)
        if factors.ndim > 1 or (factors.ndim == 1 and (not output.rank or output.shape[-1] != len(factors))):
            raise OptionError(
                f"BinaryCrossEntropy: positive_weight has the shape {list(factors.shape)}, but the output is {output}"
            )
        return output

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """softplus(-x) y + softplus(x) (1 - y), with softplus(-x) = softplus(x) - x, and the factor for y"""
        positive = unary(SoftplusOp, neg(output))
        factor = literal(np.asarray(self.positive_weight), output)
        # (1 - y) x + (1 + (factor - 1) y) softplus(-x), as PyTorch computes it.
        share = add(mul(target, sub(factor, 1)), 1)
        return reduced(add(mul(sub(1, target), output), mul(share, positive)), self.reduction)

    def weight(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The number of elements."""
        return weight_of(count_of(output))


@dataclass(frozen=True)
class KLDivergence:
    """The Kullback-Leibler divergence of the target's probabilities from the output's (torch.nn.functional.kl_div).

    The output has logarithms of probabilities, the target probabilities, or their logarithms if `log_target` is set.

    Attributes:
        reduction: "batchmean" for the sum divided by the extent of the first dimension, which is the divergence;
            "mean" for the mean of all elements; "sum".
        log_target: whether the target has logarithms.
    """

    reduction: str = "batchmean"
    log_target: bool = False

    def __post_init__(self) -> None:
        checked(self.reduction, ("batchmean", "mean", "sum"))

    def target(self, output: TensorSpec) -> TensorSpec:
        """The output's shape and element type."""
        if not output.rank:
            raise OptionError("KLDivergence: the output is a single number")
        return output

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """target (log(target) - output); elements whose probability is 0 add nothing but their product"""
        if self.log_target:
            elements = mul(exp(target), sub(target, output))
        else:
            entropy = select(compare(GreaterOp, target, 0), mul(target, unary(LogOp, target)), 0)
            elements = sub(entropy, mul(target, output))
        if self.reduction == "batchmean":
            return div(reduced(elements, "sum"), float(shape_of(output)[0]))
        return reduced(elements, self.reduction)

    def weight(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The number by which the sum is divided."""
        return weight_of(float(shape_of(output)[0]) if self.reduction == "batchmean" else count_of(output))
