"""Positions of values in sorted lists, and medians."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp, SqueezeOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ....dialects.types import is_float
from ...build import cast, constant, dtype, emit, gathered, known_number, line_of, rank, scalar, shape_of
from ...index_arithmetic import elements
from ..node import AtenNode, axis_of
from ..registry import imports
from .arithmetic import as_value
from .sorting import ordered


@imports("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(node: AtenNode, input: Any, boundaries: ir.Value, right: bool) -> ir.Value:
    """The number of boundaries below each value, or up to it."""
    value = as_value(input, node.promoted("self", "boundaries"))
    return cast(_counted_below(value, cast(boundaries, dtype(value)), right), node.dtype())


@imports("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def search_sorted(
    node: AtenNode, sorted_sequence: ir.Value, input: Any, right: bool, side: str | None, sorter: ir.Value | None
) -> ir.Value:
    """The same for lists along the last dimension, one for all values or one for each row of values."""
    value = as_value(input, node.promoted("sorted_sequence", "self"))
    rows = sorted_sequence if sorter is None else elements(sorted_sequence, sorter, rank(sorted_sequence) - 1)
    return cast(_counted_below(value, cast(rows, dtype(value)), right or side == "right"), node.dtype())


def _counted_below(value: ir.Value, rows: ir.Value, is_right: bool) -> ir.Value:
    """A binary search: each step adds a power of two to the count if the element before that position is below.

    An element is below unless it is known to be greater, or equal, as in torch: so are all elements for NaN.
    """
    length = known_number(rows, rank(rows) - 1, "the number of elements that are searched")
    found = emit(DynamicBroadcastToOp, constant(np.array(0, np.int64)), shape_of(value))
    for bit in reversed(range(length.bit_length())):
        further = emit(ew.AddOp, found, scalar(1 << bit, found))
        place = emit(ew.MinimumOp, emit(ew.SubOp, further, scalar(1, further)), scalar(length - 1, further))
        met = gathered(rows, place, 0) if rank(rows) == 1 else elements(rows, place, rank(rows) - 1)
        is_below = emit(ew.NotOp, emit(ew.GreaterOp if is_right else ew.GreaterEqualOp, met, value))
        fits = emit(ew.LessEqualOp, further, scalar(length, further))
        found = emit(ew.SelectOp, emit(ew.AndOp, fits, is_below), further, found)
    return found


@imports("aten.median.default", "aten.nanmedian.default")
def median(node: AtenNode, input: ir.Value) -> ir.Value:
    """The middle element, the lower one of two; NaN if there is one, unless these are left out."""
    if rank(input) == 0:
        return input
    return _median(line_of(input), 0, "nan" in node.overload)[0]


@imports("aten.median.dim", "aten.nanmedian.dim")
def median_along(node: AtenNode, input: ir.Value, dim: int, keepdim: bool) -> tuple[ir.Value, ...]:
    """The middle element along a dimension, and its index."""
    if rank(input) == 0:
        return input, constant(np.array(0, np.int64))
    axis = axis_of(input, dim)
    found = _median(input, axis, "nan" in node.overload)
    return tuple(emit(ExpandDimsOp, value, axes=(axis,)) for value in found) if keepdim else found


def _median(input: ir.Value, axis: int, leaves_out: bool) -> tuple[ir.Value, ir.Value]:
    count = known_number(input, axis, "the number of elements that have a median")
    middle = constant(np.array((count - 1) // 2, np.int64))
    if not is_float(dtype(input)):
        places = gathered(ordered(input, count, axis, False)[1], middle, axis)
        place = emit(ExpandDimsOp, places, axes=(axis,))
    else:
        is_nan = emit(ew.NotOp, emit(ew.EqualOp, input, input))
        last = emit(ew.SelectOp, is_nan, scalar(np.inf, input), input)
        nans = emit(ReduceSumOp, cast(is_nan, np.int64), axes=(axis,), keepdims=True)
        # NaN comes after all numbers, infinity too: both keep their order.
        _, by_value = ordered(last, count, axis, False)
        _, by_kind = ordered(elements(cast(is_nan, np.uint8), by_value, axis), count, axis, False)
        order = elements(by_value, by_kind, axis)
        valid = emit(ew.SubOp, scalar(count, nans), nans)
        half = emit(ew.DivOp, emit(ew.SubOp, valid, scalar(1, valid)), scalar(2, valid))
        half = emit(ew.MaximumOp, half, scalar(0, half))
        if not leaves_out:
            has_nan = emit(ew.GreaterOp, nans, scalar(0, nans))
            half = emit(ew.SelectOp, has_nan, valid, emit(ew.AddOp, scalar(0, half), half))
        place = elements(order, half, axis)
    value = elements(input, place, axis)
    return emit(SqueezeOp, value, axes=(axis,)), emit(SqueezeOp, place, axes=(axis,))
