"""Running extremes, and running sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell.movement import DynamicBroadcastToOp
from ....dialects.types import is_float
from ...build import cast, constant, dtype, emit, gathered, known_number, rank, shape_of
from ...formulas import Formula, exp, log
from ...index_arithmetic import numbers
from ..node import AtenNode, axis_of
from ..registry import imports

CombineFormulas = Callable[[Sequence[Formula], Sequence[Formula]], Sequence[Formula]]
"""Combines the results for some elements with those for the elements right after them; associative."""


def scanned(values: Sequence[Formula], axis: int, combine: CombineFormulas) -> list[Formula]:
    """Combines all elements up to each one along an axis, in steps that double how many are combined.

    An element that has none at a distance before it keeps its values.
    """
    found = list(values)
    first = found[0].value
    count = known_number(first, axis, "the number of elements that are accumulated")
    index = Formula(numbers(first, axis))
    distance = 1
    while distance < count:
        before = constant(np.maximum(np.arange(count) - distance, 0))
        has_more = index >= distance
        earlier = [Formula(gathered(item.value, before, axis)) for item in found]
        made = combine(earlier, found)
        found = [new.where(has_more, old) for new, old in zip(made, found, strict=True)]
        distance *= 2
    return found


@imports("aten.cummax.default", "aten.cummin.default")
def running_extreme(node: AtenNode, input: ir.Value, dim: int) -> tuple[ir.Value, ...]:
    """The greatest or least element up to each one, and the index of its last occurrence; NaN once there is one."""
    if rank(input) == 0:
        return input, constant(np.array(0, np.int64))
    axis, is_greatest = axis_of(input, dim), "cummax" in node.overload
    value = Formula(cast(input, np.uint8) if dtype(input).kind == "b" else input)
    index = Formula(emit(DynamicBroadcastToOp, numbers(input, axis), shape_of(input)))

    def combine(earlier: Sequence[Formula], later: Sequence[Formula]) -> list[Formula]:
        (old, old_place), (new, new_place) = earlier, later
        is_kept = new < old if is_greatest else new > old
        if is_float(dtype(new.value)):
            is_kept = (is_kept | ~old.equals(old)) & new.equals(new)
        return [old.where(is_kept, new), old_place.where(is_kept, new_place)]

    made, places = scanned([value, index], axis, combine)
    return cast(made.value, dtype(input)), places.value


@imports("aten.logcumsumexp.default")
def running_log_of_exponentials(node: AtenNode, input: ir.Value, dim: int) -> ir.Value:
    """log(exp(x0) + ... + exp(xn)) for each n"""
    if rank(input) == 0:
        return input

    def combine(earlier: Sequence[Formula], later: Sequence[Formula]) -> list[Formula]:
        (old,), (new,) = earlier, later
        most = old.at_least(new)
        # Two equal infinities have no difference.
        made = most + log(1 + exp(-abs(old - new)))
        return [most.where(abs(most).equals(np.inf), made)]

    return scanned([Formula(input)], axis_of(input, dim), combine)[0].value
