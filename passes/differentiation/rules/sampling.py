"""Derivative of sampling at computed positions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import GatherOp, SampleOp
from ....dialects.stepwell.movement.sampling import CUBIC_COEFFICIENT
from ...graph.values import constant, dtype_of, scalar_like
from ...ir.values import shape_of
from ..build import (
    ValueOrNumber,
    add,
    both,
    bounded,
    cast,
    compare,
    concat,
    count,
    full,
    inverse,
    mul,
    part,
    reshape,
    scattered,
    select,
    sub,
    total,
    transpose,
    unary,
)
from ..derivative import DERIVATIVE, Gradients


@dataclass(frozen=True)
class _Tap:
    """An element near each position along one dimension.

    Attributes:
        index: its index, [batch, positions].
        is_inside: whether it counts; None if it always does.
        weight: its share of the result.
        slope: the derivative of the share by the position; None if it is 0.
    """

    index: ir.Value
    is_inside: ir.Value | None
    weight: ValueOrNumber
    slope: ValueOrNumber | None


@DERIVATIVE.attach(SampleOp)
def sample(op: SampleOp, gradient: ir.Value) -> Gradients:
    """g times the weights added to zeros at the elements, and the slopes of the weights times sum(g * elements)"""
    batch, channels, *spatial = shape_of(op.input)
    rank, number = len(spatial), count(shape_of(op.positions)[2:])
    rows = reshape(_channels_last(gradient), (batch, number, channels))

    def places(axis: int) -> ir.Value:
        return reshape(_plane(op.positions, axis), (batch, number))

    def corners() -> list[tuple[tuple[_Tap, ...], ir.Value]]:
        """Combinations of taps of all dimensions, each with the rows of its elements in the flat images."""
        along = [
            _taps(op, reshape(_plane(op.positions, axis), (batch, number)), extent)
            for axis, extent in enumerate(spatial)
        ]
        first = constant((np.arange(batch) * count(spatial)).reshape(batch, 1))
        found = []
        for taps in itertools.product(*along):
            place = first
            for axis, tap in enumerate(taps):
                place = add(place, mul(tap.index, count(spatial[axis + 1 :])))
            found.append((taps, place))
        return found

    def of_input() -> ir.Value:
        parts, places = [], []
        for taps, place in corners():
            weight = _share(taps, rows)
            parts.append(rows if weight is None else mul(rows, reshape(weight, (batch, number, 1))))
            places.append(place)
        updates = reshape(concat(parts, 0), (len(parts) * batch * number, channels))
        indices = reshape(concat(places, 0), (len(places) * batch * number,))
        images = scattered(updates, indices, batch * count(spatial))
        return transpose(reshape(images, (batch, *spatial, channels)), inverse([0, *range(2, rank + 2), 1]))

    def of_positions() -> ir.Value:
        images = reshape(_channels_last(op.input), (batch * count(spatial), channels))
        slopes: list[ir.Value | None] = [None] * rank
        for taps, place in corners():
            if any(tap.slope is None for tap in taps):
                continue
            taken = GatherOp(images, place, axis=0).result
            value = cast(total(mul(taken, rows), [2], keepdims=False), dtype_of(op.positions))
            for axis, tap in enumerate(taps):
                others = [other.weight for dim, other in enumerate(taps) if dim != axis]
                term = _masked(mul(value, tap.slope or 0.0, *others), taps)
                known = slopes[axis]
                slopes[axis] = term if known is None else add(known, term)
        nothing = full(0, op.positions, (batch, number))
        planes = [nothing if slope is None else slope for slope in slopes]
        if op.mode == "linear" and op.padding != "zeros":
            planes = [
                select(_is_inside(op, places(axis), spatial[axis]), plane, 0) for axis, plane in enumerate(planes)
            ]
        return reshape(concat([reshape(item, (batch, 1, number)) for item in planes], 1), shape_of(op.positions))

    return of_input, of_positions


def _channels_last(value: ir.Value) -> ir.Value:
    return transpose(value, [0, *range(2, len(shape_of(value))), 1])


def _plane(positions: ir.Value, axis: int) -> ir.Value:
    """The coordinates along one dimension."""
    shape = shape_of(positions)
    return part(positions, [0, axis, *[0] * (len(shape) - 2)], [shape[0], axis + 1, *shape[2:]])


def _share(taps: Sequence[_Tap], like: ir.Value) -> ir.Value | None:
    """The product of the weights of taps, 0 for elements that do not count; None if it is 1 everywhere."""
    weights = [tap.weight for tap in taps if isinstance(tap.weight, ir.Value)]
    masks = [tap.is_inside for tap in taps if tap.is_inside is not None]
    if not weights:
        return _masked(full(1, like, shape_of(taps[0].index)), taps) if masks else None
    return cast(_masked(weights[0] if len(weights) == 1 else mul(*weights), taps), dtype_of(like))


def _masked(value: ir.Value, taps: Sequence[_Tap]) -> ir.Value:
    for tap in taps:
        if tap.is_inside is not None:
            value = select(tap.is_inside, value, 0)
    return value


def _taps(op: SampleOp, position: ir.Value, extent: int) -> list[_Tap]:
    """The taps along a dimension for positions [batch, positions]."""
    if op.mode == "nearest":
        return [_tap(op, unary(ew.RoundOp, position), extent, 1.0, None)]
    low = unary(ew.FloorOp, position)
    ratio = sub(position, low)
    if op.mode == "linear":
        weights: list[tuple[ir.Value, ValueOrNumber]] = [(sub(1, ratio), -1.0), (ratio, 1.0)]
        return [_tap(op, add(low, offset) if offset else low, extent, *pair) for offset, pair in enumerate(weights)]
    far_end, near_end = add(ratio, 1), sub(1, ratio)
    weights = [
        (_far(far_end), _far_slope(far_end)),
        (_near(ratio), _near_slope(ratio)),
        (_near(near_end), mul(_near_slope(near_end), -1)),
        (_far(sub(2, ratio)), mul(_far_slope(sub(2, ratio)), -1)),
    ]
    return [_tap(op, add(low, offset), extent, *pair) for offset, pair in zip(range(-1, 3), weights, strict=True)]


def _tap(op: SampleOp, at: ir.Value, extent: int, weight: ValueOrNumber, slope: ValueOrNumber | None) -> _Tap:
    """The tap of elements `at`, whole numbers, of which some may be outside."""
    if op.padding == "reflection":
        at = _reflected(at, extent, op.about_edges)
    index = bounded(at, extent)
    is_inside = compare(ew.EqualOp, index, at) if op.padding == "zeros" else None
    return _Tap(cast(index, np.dtype(np.int64)), is_inside, weight, slope)


def _is_inside(op: SampleOp, at: ir.Value, extent: int) -> ir.Value:
    """True where positions are between the first and the last element: at these the slope is 0, as in PyTorch."""
    if op.padding == "reflection":
        at = _reflected(at, extent, op.about_edges)
    return both(compare(ew.GreaterOp, at, 0), compare(ew.LessOp, at, extent - 1))


def _reflected(at: ir.Value, extent: int, about_edges: bool) -> ir.Value:
    """Positions folded back into a dimension."""
    if about_edges and extent == 1:
        return mul(at, 0)
    period = 2 * (extent - 1) if about_edges else 2 * extent
    shift = 0 if about_edges else 0.5
    moved = add(at, shift)
    turns = unary(ew.RoundOp, ew.DivOp(moved, scalar_like(period, moved)).result)
    return sub(unary(ew.AbsOp, sub(moved, mul(turns, period))), shift)


def _near(x: ir.Value) -> ir.Value:
    a = CUBIC_COEFFICIENT
    return add(mul(sub(mul(x, a + 2), a + 3), x, x), 1)


def _near_slope(x: ir.Value) -> ir.Value:
    a = CUBIC_COEFFICIENT
    return mul(sub(mul(x, 3 * (a + 2)), 2 * (a + 3)), x)


def _far(x: ir.Value) -> ir.Value:
    a = CUBIC_COEFFICIENT
    return sub(mul(add(mul(sub(mul(x, a), 5 * a), x), 8 * a), x), 4 * a)


def _far_slope(x: ir.Value) -> ir.Value:
    a = CUBIC_COEFFICIENT
    return add(mul(sub(mul(x, 3 * a), 10 * a), x), 8 * a)
