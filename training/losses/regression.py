"""Losses of differences between an output and a target of the same shape."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects.stepwell.elementwise import AbsOp, LessOp
from ...dialects.types import TensorSpec
from ...passes.differentiation.build import compare, mul, select, square, sub, unary
from ...support.errors import OptionError
from .base import WithReduction, count_of, reduced, weight_of


@dataclass(frozen=True)
class _Difference(WithReduction):
    reduction: str = "mean"

    def target(self, output: TensorSpec) -> TensorSpec:
        """The output's shape and element type."""
        return output

    def build(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The mean or the sum of the losses of all elements."""
        return reduced(self._elements(sub(output, target)), self.reduction)

    def weight(self, output: ir.Value, target: ir.Value) -> ir.Value:
        """The number of elements."""
        return weight_of(count_of(output))

    def _elements(self, difference: ir.Value) -> ir.Value:
        raise NotImplementedError


@dataclass(frozen=True)
class MeanSquaredError(_Difference):
    """The mean of `(output - target) ** 2` (torch.nn.functional.mse_loss). The target is like the output.

    Attributes:
        reduction: "mean", or "sum" for the sum.
    """

    def _elements(self, difference: ir.Value) -> ir.Value:
        return square(difference)


@dataclass(frozen=True)
class MeanAbsoluteError(_Difference):
    """The mean of `|output - target|` (torch.nn.functional.l1_loss). The target is like the output.

    Attributes:
        reduction: "mean", or "sum" for the sum.
    """

    def _elements(self, difference: ir.Value) -> ir.Value:
        return unary(AbsOp, difference)


@dataclass(frozen=True)
class SmoothL1(_Difference):
    """The mean of d ** 2 / (2 beta) where d < beta, else d - beta / 2 (torch.nn.functional.smooth_l1_loss).

    d is the absolute difference of output and target. The target is like the output.

    Attributes:
        reduction: "mean", or "sum" for the sum.
        beta: the difference at which the square ends; 0 for none.
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta >= 0:
            raise OptionError(f"{self}: beta must not be negative")

    def _elements(self, difference: ir.Value) -> ir.Value:
        size = unary(AbsOp, difference)
        if self.beta == 0:
            return size
        small = mul(square(difference), 0.5 / self.beta)
        return select(compare(LessOp, size, self.beta), small, sub(size, 0.5 * self.beta))


@dataclass(frozen=True)
class Huber(_Difference):
    """The mean of d ** 2 / 2 where d < delta, else delta (d - delta / 2) (torch.nn.functional.huber_loss).

    d is the absolute difference of output and target. The target is like the output.

    Attributes:
        reduction: "mean", or "sum" for the sum.
        delta: the difference at which the square ends.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.delta > 0:
            raise OptionError(f"{self}: delta must be positive")

    def _elements(self, difference: ir.Value) -> ir.Value:
        size = unary(AbsOp, difference)
        large = mul(sub(size, 0.5 * self.delta), self.delta)
        return select(compare(LessOp, size, self.delta), mul(square(difference), 0.5), large)
