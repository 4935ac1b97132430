"""The interfaces of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from mlir import ir

from ...dialects.types import TensorSpec
from ...passes.differentiation.build import div, total
from ...passes.graph.values import constant
from ...passes.ir.values import shape_of
from ...runtime.program import Shape
from ...support.errors import OptionError

TARGET = "target"
"""Name of the array of a batch that is the target of a loss."""


class Loss(Protocol):
    """A loss of an output and a target; both are part of a batch.

    It may also have a method `weight` with the parameters of `build`: it writes ops that compute the number by which
    the sum over elements is divided, an f32 scalar. Micro-batches have weights in these proportions. Without it, all
    micro-batches have the same weight.
    """

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
class Computed:
    """A loss that was computed.

    Attributes:
        value: the loss, of rank 0.
        weight: the number by which the sum over elements was divided, an f32 scalar; None if all batches count equally.
        gradients: the gradient of the loss with respect to each output; None to differentiate the ops of the loss.
    """

    value: ir.Value
    weight: ir.Value | None = None
    gradients: Sequence[ir.Value] | None = None


@runtime_checkable
class LossOfMany(Protocol):
    """A loss of several outputs, or with several targets or none.

    Attributes:
        outputs: number of outputs of floating point that it takes, the first ones of the model.
        targets: names of the targets in a batch, in order.
        is_sum: whether losses and gradients of micro-batches are added rather than averaged.
    """

    @property
    def outputs(self) -> int: ...

    @property
    def targets(self) -> Sequence[str]: ...

    @property
    def is_sum(self) -> bool: ...

    def specs(self, outputs: Sequence[TensorSpec], shapes: Mapping[str, Shape]) -> Sequence[TensorSpec]:
        """The shape and element type of each target, from those of the outputs, and the shapes in the batch.

        Raises:
            OptionError: the loss does not take such outputs or targets.
        """
        ...

    def compute(self, outputs: Sequence[ir.Value], targets: Sequence[ir.Value]) -> Computed:
        """Writes ops that compute the loss at the insertion point."""
        ...


@dataclass(frozen=True)
class OfOne:
    """A `Loss` in the form of a `LossOfMany`."""

    loss: Loss
    outputs: int = 1
    targets: Sequence[str] = (TARGET,)

    @property
    def is_sum(self) -> bool:
        """True if its `reduction` is "sum"."""
        return getattr(self.loss, "reduction", "mean") == "sum"

    def specs(self, outputs: Sequence[TensorSpec], shapes: Mapping[str, Shape]) -> Sequence[TensorSpec]:
        """The target of the only output."""
        return [self.loss.target(outputs[0])]

    def compute(self, outputs: Sequence[ir.Value], targets: Sequence[ir.Value]) -> Computed:
        """The loss, and its weight if it has one."""
        weigh = getattr(self.loss, "weight", None)
        given = (outputs[0], targets[0])
        return Computed(self.loss.build(*given), None if weigh is None else weigh(*given))


def of_many(loss: Loss | LossOfMany) -> LossOfMany:
    """Returns a loss in its general form."""
    return loss if isinstance(loss, LossOfMany) else OfOne(loss)


class WithReduction:
    """A base of losses with an attribute `reduction`, which is "mean" or "sum"."""

    reduction: str

    def __post_init__(self) -> None:
        checked(self.reduction)

    @property
    def is_sum(self) -> bool:
        """True if `reduction` is "sum"."""
        return self.reduction == "sum"


def checked(reduction: str, allowed: Sequence[str] = ("mean", "sum")) -> None:
    """Checks how a loss sums up elements.

    Raises:
        OptionError: it is not one of the ways allowed.
    """
    if reduction not in allowed:
        raise OptionError(f"reduction is {reduction!r}, and must be one of {', '.join(map(repr, allowed))}")


def reduced(elements: ir.Value, reduction: str) -> ir.Value:
    """The mean or the sum of all elements."""
    added = total(elements, range(len(shape_of(elements))), keepdims=False)
    return div(added, count_of(elements)) if reduction == "mean" else added


def count_of(value: ir.Value) -> float:
    """The number of elements."""
    return float(np.prod(shape_of(value), dtype=np.int64))


def weight_of(count: float) -> ir.Value:
    """A weight that is the same for all batches of a shape."""
    return constant(np.array(count, np.float32))
