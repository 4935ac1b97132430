"""Loss scaling: a factor of the loss that keeps small gradients in the range of float16."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from mlir import ir

from ..dialects.stepwell.elementwise import AbsOp, EqualOp, GreaterEqualOp, LessEqualOp, NotOp
from ..passes.differentiation.build import add, both, compare, full, mul, select, total, unary, zeros
from ..passes.graph.values import constant, dtype_of
from ..passes.ir.values import shape_of
from ..support.errors import OptionError


@dataclass(frozen=True)
class LossScale:
    """A factor of the loss that adapts to the range of gradients, as that of `torch.amp.GradScaler` does.

    The backward pass computes gradients of the scaled loss; they are divided by the scale before the optimiser sees
    them. If one of them is not finite, the step is left out: parameters and the state of the optimiser stay, and the
    scale falls. After `interval` steps without such a gradient, it grows.

    Attributes:
        initial: the first scale.
        growth: factor by which it grows.
        backoff: factor by which it falls.
        interval: number of steps between growths.
    """

    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        if not (self.initial > 0 and self.growth > 1 and 0 < self.backoff < 1 and self.interval >= 1):
            raise OptionError(
                f"{self}: initial must be positive, growth above 1, backoff between 0 and 1, and interval 1 or more"
            )

    def after(self, scale: ir.Value, good: ir.Value, is_finite: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Writes ops that compute the scale of the next step, an f32 scalar, and the steps since it changed, i64.

        Args:
            scale: the scale of this step.
            good: the number of steps before this one since the scale changed.
            is_finite: whether all gradients are finite.
        """
        count = add(good, 1)
        is_due = compare(GreaterEqualOp, count, self.interval)
        grown = mul(scale, self.growth)
        grown = select(both(is_due, finite(grown)), grown, scale)
        following = select(is_finite, grown, mul(scale, self.backoff))
        starts = both(is_finite, unary(NotOp, is_due))
        return following, select(starts, count, 0)


def finite(value: ir.Value) -> ir.Value:
    """Bools that tell which elements are neither infinite nor NaN."""
    return compare(LessEqualOp, unary(AbsOp, value), float(ml_dtypes.finfo(dtype_of(value)).max))


def all_finite(values: Sequence[ir.Value]) -> ir.Value:
    """A scalar bool that tells whether all elements of all values are finite."""
    found: ir.Value | None = None
    for value in values:
        wrong = select(finite(value), zeros(value), full(1, value))
        wrong = total(wrong, range(len(shape_of(value))), keepdims=False)
        is_right = compare(EqualOp, wrong, 0)
        found = is_right if found is None else both(found, is_right)
    return constant(np.array(True)) if found is None else found
