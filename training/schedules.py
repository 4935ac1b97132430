"""Schedules of the learning rate: factors that a step computes from its number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from mlir import ir

from ..dialects.stepwell.elementwise import CosOp, FloorOp, LessOp, MaximumOp, MinimumOp, PowOp
from ..passes.differentiation.build import add, compare, div, full, mul, select, sub, unary
from ..passes.graph.values import scalar_like
from ..support.errors import OptionError


class RateSchedule(Protocol):
    """The factor of the learning rate in each step."""

    def factor(self, step: ir.Value) -> ir.Value:
        """Writes ops that compute the factor, an f64 scalar.

        Args:
            step: the number of steps before this one, an f64 scalar.
        """
        ...


@dataclass(frozen=True)
class _Warm:
    """A rise from 0 in `warmup` steps, and a fall until step `steps`.

    Attributes:
        steps: the number of the step from which on the factor stays `final`.
        warmup: number of steps of the rise, which is linear: the first factor is 0, that of step `warmup` is 1.
        final: the last factor.
    """

    steps: int
    warmup: int = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < self.steps:
            raise OptionError(f"{self}: the warm-up must end before the last step")

    def factor(self, step: ir.Value) -> ir.Value:
        """The line up to `warmup`, then the fall of the share of the other steps that have passed."""
        share = div(sub(step, self.warmup), self.steps - self.warmup)
        share = MinimumOp(MaximumOp(share, scalar_like(0, share)).result, scalar_like(1, share)).result
        falling = add(mul(self._fall(share), 1 - self.final), self.final)
        if not self.warmup:
            return falling
        return select(compare(LessOp, step, self.warmup), div(step, self.warmup), falling)

    def _fall(self, share: ir.Value) -> ir.Value:
        raise NotImplementedError


@dataclass(frozen=True)
class Cosine(_Warm):
    """A linear rise, then half a period of a cosine from 1 to `final` (Loshchilov and Hutter 2017).

    The factors are those of `transformers.get_cosine_schedule_with_warmup` if `final` is 0, and without a warm-up
    those of `torch.optim.lr_scheduler.CosineAnnealingLR`.

    Attributes:
        steps: the number of the step from which on the factor stays `final`.
        warmup: number of steps of the rise, which is linear: the first factor is 0, that of step `warmup` is 1.
        final: the last factor.
    """

    def _fall(self, share: ir.Value) -> ir.Value:
        return mul(add(unary(CosOp, mul(share, math.pi)), 1), 0.5)


@dataclass(frozen=True)
class Linear(_Warm):
    """A linear rise, then a line from 1 to `final` (`transformers.get_linear_schedule_with_warmup` if that is 0).

    Attributes:
        steps: the number of the step from which on the factor stays `final`.
        warmup: number of steps of the rise, which is linear: the first factor is 0, that of step `warmup` is 1.
        final: the last factor.
    """

    def _fall(self, share: ir.Value) -> ir.Value:
        return sub(1, share)


@dataclass(frozen=True)
class Decay:
    """A factor that is multiplied by `by` every `every` steps (torch.optim.lr_scheduler.StepLR).

    Attributes:
        every: number of steps between changes.
        by: the number that the factor is multiplied by.
    """

    every: int
    by: float = 0.1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise OptionError(f"{self}: there must be 1 step or more between changes")

    def factor(self, step: ir.Value) -> ir.Value:
        """by ** floor(step / every)"""
        return PowOp(full(self.by, step), unary(FloorOp, div(step, self.every))).result
