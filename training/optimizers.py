"""Optimisers: each says what it remembers of a parameter, and writes stepwell ops that compute the next values."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from mlir import ir

from ..dialects.core import spec_of
from ..dialects.stepwell.elementwise import MinimumOp, PowOp, ReciprocalOp, SqrtOp
from ..passes.differentiation.build import add, cast, div, mul, square, sub, total, unary
from ..passes.graph.values import constant, scalar_like
from ..passes.ir.values import shape_of
from ..support.errors import OptionError


@dataclass(frozen=True)
class StepInfo:
    """Values that the steps of all parameters share.

    Attributes:
        rate: the learning rate, an f32 scalar.
        step: the number of this step, from 1, an f64 scalar.
    """

    rate: ir.Value
    step: ir.Value


class Optimizer(Protocol):
    """The rule by which parameters change."""

    @property
    def rate(self) -> float:
        """The initial learning rate."""
        ...

    @property
    def slots(self) -> Sequence[str]:
        """The names of what is remembered of each parameter: tensors of its shape, at first 0."""
        ...

    def update(
        self, parameter: ir.Value, gradient: ir.Value, slots: Mapping[str, ir.Value], info: StepInfo
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """Writes ops that compute the next values of a parameter and its slots, and returns them."""
        ...


@dataclass(frozen=True)
class Group:
    """Parameters that another rule changes.

    A schedule, and a learning rate that is set between steps, change the rates of all groups in the same proportion.

    Attributes:
        optimizer: the rule, such as `AdamW(weight_decay=0.0)`.
        names: a name, a pattern such as `*.bias`, or several of them.
        max_rank: the greatest number of dimensions of these parameters; None for any. Norms and biases have 1.
    """

    optimizer: Optimizer
    names: str | Sequence[str] = "*"
    max_rank: int | None = None

    def includes(self, name: str, rank: int) -> bool:
        """Returns whether a parameter belongs to the group."""
        patterns = [self.names] if isinstance(self.names, str) else self.names
        return (self.max_rank is None or rank <= self.max_rank) and any(
            name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns
        )


def rules_of(
    parameters: Mapping[str, np.ndarray], optimizer: Optimizer, groups: Sequence[Group]
) -> dict[str, Optimizer]:
    """The rules of parameters by name: that of the first group that includes one, else `optimizer`.

    Raises:
        OptionError: a group has no parameters, or its learning rate has no proportion to that of `optimizer`.
    """
    if not optimizer.rate and any(group.optimizer.rate for group in groups):
        raise OptionError("groups: the optimiser of the other parameters must have a learning rate above 0")
    rules, used = {}, set()
    for name, array in parameters.items():
        group = next((group for group in groups if group.includes(name, array.ndim)), None)
        rules[name] = optimizer if group is None else group.optimizer
        used.add(id(group))
    for group in groups:
        if id(group) not in used:
            rank = "" if group.max_rank is None else f" with {group.max_rank} dimensions or fewer"
            raise OptionError(
                f"groups: no parameter{rank} matches {group.names!r} and no earlier group; "
                f"there are {', '.join(parameters)}"
            )
    return rules


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent (torch.optim.SGD).

    Attributes:
        rate: the learning rate.
        momentum: the share of the last change that is kept.
        weight_decay: the share of a parameter that is added to its gradient.
        nesterov: whether the gradient is looked at after the momentum.
    """

    rate: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    @property
    def slots(self) -> Sequence[str]:
        """The change, if momentum keeps a share of it."""
        return ("momentum",) if self.momentum else ()

    def update(
        self, parameter: ir.Value, gradient: ir.Value, slots: Mapping[str, ir.Value], info: StepInfo
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """p - rate * change, with the change g + momentum * change"""
        if self.weight_decay:
            gradient = add(gradient, mul(parameter, self.weight_decay))
        change, kept = gradient, {}
        if self.momentum:
            change = add(mul(slots["momentum"], self.momentum), gradient)
            kept = {"momentum": change}
            if self.nesterov:
                change = add(gradient, mul(change, self.momentum))
        return sub(parameter, mul(change, _like(info.rate, parameter))), kept


@dataclass(frozen=True)
class _Moments:
    """Base of the rules that divide the mean of gradients by the root of the mean of their squares."""

    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8

    @property
    def slots(self) -> Sequence[str]:
        """The means of gradients and of their squares."""
        return ("mean", "mean_square")

    def _step(
        self, parameter: ir.Value, gradient: ir.Value, slots: Mapping[str, ir.Value], info: StepInfo
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """p - rate * m / (sqrt(v) + epsilon), with the means m and v corrected for their start at 0"""
        mean_share, square_share = self.betas
        mean = add(mul(slots["mean"], mean_share), mul(gradient, 1 - mean_share))
        mean_square = add(mul(slots["mean_square"], square_share), mul(square(gradient), 1 - square_share))
        # In float64: in float32, 1 - 0.999 has an error of 6e-5.
        size = div(cast(info.rate, np.dtype(np.float64)), _missing(mean_share, info.step))
        root = unary(SqrtOp, _missing(square_share, info.step))
        deviation = add(mul(unary(SqrtOp, mean_square), _like(unary(ReciprocalOp, root), parameter)), self.epsilon)
        changed = sub(parameter, div(mul(mean, _like(size, parameter)), deviation))
        return changed, {"mean": mean, "mean_square": mean_square}


@dataclass(frozen=True)
class Adam(_Moments):
    """Adam (torch.optim.Adam; Kingma and Ba 2015).

    Attributes:
        rate: the learning rate.
        betas: how much of the means of gradients, and of their squares, is kept in each step.
        epsilon: number added to the root of the mean square.
        weight_decay: the share of a parameter that is added to its gradient.
    """

    weight_decay: float = 0.0

    def update(
        self, parameter: ir.Value, gradient: ir.Value, slots: Mapping[str, ir.Value], info: StepInfo
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """The step of Adam, with the gradient g + decay * p"""
        if self.weight_decay:
            gradient = add(gradient, mul(parameter, self.weight_decay))
        return self._step(parameter, gradient, slots, info)


@dataclass(frozen=True)
class AdamW(_Moments):
    """Adam with weight decay apart from the gradient (torch.optim.AdamW; Loshchilov and Hutter 2019).

    Attributes:
        rate: the learning rate.
        betas: how much of the means of gradients, and of their squares, is kept in each step.
        epsilon: number added to the root of the mean square.
        weight_decay: the share of a parameter, times the learning rate, that is taken off in each step.
    """

    weight_decay: float = 1e-2

    def update(
        self, parameter: ir.Value, gradient: ir.Value, slots: Mapping[str, ir.Value], info: StepInfo
    ) -> tuple[ir.Value, dict[str, ir.Value]]:
        """p * (1 - rate * decay), then the step of Adam"""
        if self.weight_decay:
            parameter = mul(parameter, _like(sub(1, mul(info.rate, self.weight_decay)), parameter))
        return self._step(parameter, gradient, slots, info)


def _missing(share: float, step: ir.Value) -> ir.Value:
    """1 - share ** step: how much of a mean that started at 0 is there."""
    return sub(1, PowOp(constant(np.array(share)), step).result)


def _like(number: ir.Value, value: ir.Value) -> ir.Value:
    """A scalar in the element type of a value."""
    return cast(number, spec_of(value).dtype)


def clipped(gradients: Sequence[ir.Value], most: float) -> list[ir.Value]:
    """Gradients scaled so that their common Euclidean norm is at most `most` (torch.nn.utils.clip_grad_norm_)."""
    squares = [total(square(item), range(len(shape_of(item))), keepdims=False) for item in gradients]
    together = squares[0]
    for item in squares[1:]:
        together = add(together, item)
    factor = div(scalar_like(most, together), add(unary(SqrtOp, together), 1e-6))
    factor = MinimumOp(factor, scalar_like(1, factor)).result
    return [mul(item, _like(factor, item)) for item in gradients]
