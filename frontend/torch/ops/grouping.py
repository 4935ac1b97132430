"""Equal elements or slices: unique ones, how often they occur, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.grouping import NumberGroupsOp, SortRowsOp, SummarizeGroupsOp
from ....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp, ScatterOp, SqueezeOp
from ....dialects.stepwell.reduction import ArgmaxOp, ReduceMaxOp, ReduceMinOp, ReduceSumOp
from ....dialects.stepwell.shape import FillOp
from ....dialects.stepwell.sorting import TopKOp
from ....dialects.types import is_float
from ...build import (
    cast,
    constant,
    dtype,
    emit,
    flattened,
    gathered,
    integers,
    known_number,
    line_of,
    part_along,
    rank,
    reshaped,
    running,
    shape_of,
    transposed,
)
from ...errors import UnsupportedError
from ...formulas import Formula, floor
from ...index_arithmetic import elements, numbers
from ..node import AtenNode, axis_of
from ..registry import imports
from .scans import scanned
from .sorting import ordered


def _comparable(value: ir.Value) -> ir.Value:
    return cast(value, np.uint8) if dtype(value).kind == "b" else value


@imports("aten._unique2.default")
def unique(
    node: AtenNode, input: ir.Value, return_inverse: bool, return_counts: bool, sorted: bool = True
) -> tuple[ir.Value, ...]:
    """The distinct elements in ascending order, the inverse indices, and the counts."""
    line = line_of(input)
    return _grouped(node, line, _ascending(line), 0)


@imports("aten.unique_dim.default")
def unique_slices(
    node: AtenNode, input: ir.Value, dim: int, return_inverse: bool, return_counts: bool, sorted: bool = True
) -> tuple[ir.Value, ...]:
    """The same for the slices along a dimension."""
    axis = axis_of(input, dim)
    return _grouped(node, input, _ascending(_slices(input, axis)), axis)


@imports("aten.unique_consecutive.default")
def unique_neighbours(
    node: AtenNode, input: ir.Value, return_inverse: bool, return_counts: bool, dim: int | None
) -> tuple[ir.Value, ...]:
    """The elements or slices that differ from those before them."""
    axis = 0 if dim is None else axis_of(input, dim)
    value = line_of(input) if dim is None else input
    members = value if dim is None else _slices(value, axis)
    count = known_number(members, 0, "the number of elements that are compared")
    if not count:
        return _grouped(node, value, constant(np.zeros(0, np.int64)), axis)
    before = gathered(members, constant(np.maximum(np.arange(count) - 1, 0)), 0)
    differs = cast(emit(ew.NotOp, emit(ew.EqualOp, members, before)), np.int64)
    differs = emit(ReduceMaxOp, differs, axes=(1,), keepdims=False) if rank(members) == 2 else differs
    return _grouped(node, value, running(differs, 0), axis)


def _slices(input: ir.Value, axis: int) -> ir.Value:
    order = [axis, *(other for other in range(rank(input)) if other != axis)]
    return flattened(transposed(input, order), 1)


def _ascending(members: ir.Value) -> ir.Value:
    """The number of the group of each element or row; groups are numbered in ascending order."""
    keys = _comparable(members)
    count = known_number(members, 0, "the number of elements that are compared")
    if not count:
        return constant(np.zeros(0, np.int64))
    if rank(keys) == 1 and is_float(dtype(keys)):
        # Each NaN is a group of its own.
        order = emit(TopKOp, keys, k=count, largest=False)
        return emit(NumberGroupsOp, emit(ExpandDimsOp, keys, axes=(1,)), order)
    order = emit(TopKOp, keys, k=count, largest=False) if rank(keys) == 1 else emit(SortRowsOp, keys)
    return emit(NumberGroupsOp, keys, order)


def _grouped(node: AtenNode, input: ir.Value, groups: ir.Value, axis: int) -> tuple[ir.Value, ...]:
    """The first member of each group, the groups, and their sizes; torch says which of these are empty instead."""
    empty = constant(np.zeros(0, np.int64))
    first, sizes = (emit(SummarizeGroupsOp, groups, fact=fact) for fact in ("first", "size"))
    if not known_number(groups, 0, "the number of elements that are compared"):
        raise UnsupportedError("finds the unique ones of no elements, which is not supported")
    values = gathered(input, first, axis)
    total = emit(ew.AddOp, emit(ReduceMaxOp, groups, axes=(0,), keepdims=False), integers(1))
    for value, along in ((values, axis), (sizes, 0)):
        node.importer.counts.add(value, along, total)
    is_empty = [any(isinstance(size, int) and size == 0 for size in item.shape) for item in node.results]
    return values, empty if is_empty[1] else reshaped(groups, node.shape(1)), empty if is_empty[2] else sizes


@imports("aten.mode.default")
def mode(node: AtenNode, input: ir.Value, dim: int, keepdim: bool) -> tuple[ir.Value, ...]:
    """The least of the most frequent elements along a dimension, and the index of its last occurrence."""
    if rank(input) == 0:
        return input, constant(np.array(0, np.int64))
    axis = axis_of(input, dim)
    count = known_number(input, axis, "the number of elements that have a mode")
    values, order = ordered(input, count, axis, False)
    before = gathered(values, constant(np.maximum(np.arange(count) - 1, 0)), axis)
    position = Formula(emit(DynamicBroadcastToOp, numbers(input, axis), shape_of(input)))
    start = position.where(~Formula(values).equals(Formula(before)), 0)
    # Along a run of equal elements, the distance to its start grows.
    (start,) = scanned([start], axis, lambda earlier, later: [later[0].at_least(earlier[0])])
    last = emit(ArgmaxOp, (position - start).value, axis=axis, keepdims=True)
    found = elements(values, last, axis), elements(order, last, axis)
    return found if keepdim else tuple(emit(SqueezeOp, item, axes=(axis,)) for item in found)


@imports("aten.histc.default")
def histc(node: AtenNode, input: ir.Value, bins: int, min: float, max: float) -> ir.Value:
    """The numbers of elements in intervals of equal width; of all elements if both ends are 0."""
    value = Formula(line_of(cast(input, node.dtype())))
    low, high = _range(value, (min, max) if min != max else None, margin=1)
    return _histogram(value, low, high, bins, None, node.dtype())


@imports("aten.histogram.bin_ct")
def histogram(
    node: AtenNode, input: ir.Value, bins: int, range: Sequence[float] | None, weight: ir.Value | None, density: bool
) -> tuple[ir.Value, ir.Value]:
    """The numbers, or total weights, or shares per width, of elements in intervals of equal width, and their ends."""
    value = Formula(line_of(input))
    low, high = _range(value, tuple(range) if range else None)
    made = Formula(_histogram(value, low, high, bins, weight, node.dtype()))
    return _density(made, (high - low) / bins, density).value, _ends(low, high, bins).value


def _ends(low: Formula, high: Formula, bins: int) -> Formula:
    kind = dtype(low.value)
    line = Formula(constant((np.arange(bins + 1) / bins).astype(kind)))
    made = low + line * (high - low)
    return high.where(Formula(constant(np.arange(bins + 1))).equals(bins), made)


def _density(counts: Formula, width: Formula, density: bool) -> Formula:
    if not density:
        return counts
    total = Formula(emit(ReduceSumOp, counts.value, axes=tuple(range(rank(counts.value))), keepdims=False))
    return counts / (total * width)


def _range(value: Formula, given: tuple[float, ...] | None, margin: float = 0.5) -> tuple[Formula, Formula]:
    """The ends of a histogram, as scalars: those of all elements by default, with a margin if they are equal."""
    kind = dtype(value.value)
    if given is not None:
        low, high = (Formula(constant(np.array(number, kind))) for number in given)
    elif known_number(value.value, 0, "the number of elements of a histogram") == 0:
        low, high = (Formula(constant(np.array(number, kind))) for number in (0, 1))
    else:
        low, high = (Formula(emit(op, value.value, axes=(0,), keepdims=False)) for op in (ReduceMinOp, ReduceMaxOp))
    is_point = low.equals(high)
    return (low - margin).where(is_point, low), (high + margin).where(is_point, high)


def _bin(value: Formula, low: Formula, high: Formula, bins: int) -> Formula:
    """The interval of each element; `bins` for elements outside, those at the upper end are in the last one."""
    position = floor((value - low) * bins / (high - low)).at_most(bins - 1)
    # Elements are compared with the ends of intervals as they are returned.
    ends = _ends(low, high, bins)
    number = position.at_least(0).as_type(np.int64)
    start = Formula(gathered(ends.value, number.value, 0))
    stop = Formula(gathered(ends.value, (number + 1).value, 0))
    number = (number - 1).where(value < start, (number + 1).where((value >= stop) & (number < bins - 1), number))
    return number.where((value >= low) & (value <= high), bins)


def _histogram(
    value: Formula, low: Formula, high: Formula, bins: int, weight: ir.Value | None, kind: np.dtype
) -> ir.Value:
    positions = _bin(value, low, high, bins).value
    ones = emit(FillOp, shape_of(positions), value=np.ones((), kind)) if weight is None else line_of(cast(weight, kind))
    start = emit(FillOp, integers([bins + 1]), value=np.zeros((), kind))
    return part_along(emit(ScatterOp, start, positions, ones, axis=0, reduction="add"), 0, 0, bins)


@imports("aten._histogramdd_bin_edges.default")
def ends_of_dimensions(
    node: AtenNode, input: ir.Value, bins: Sequence[int], range: Sequence[float] | None, **_: Any
) -> list[ir.Value]:
    """The ends of the intervals of each column."""
    return [_ends(*_range(column, given), count).value for column, given, count in _columns(input, bins, range)]


@imports("aten._histogramdd_from_bin_cts.default")
def histogram_of_dimensions(
    node: AtenNode,
    input: ir.Value,
    bins: Sequence[int],
    range: Sequence[float] | None,
    weight: ir.Value | None,
    density: bool,
) -> ir.Value:
    """The numbers of rows in boxes of equal size."""
    position, is_inside, width = None, None, None
    for column, given, count in _columns(input, bins, range):
        low, high = _range(column, given)
        number = _bin(column, low, high, count)
        fits = number < count
        position = number if position is None else position * count + number
        is_inside = fits if is_inside is None else is_inside & fits
        step = (high - low) / count
        width = step if width is None else width * step
    assert position is not None and is_inside is not None and width is not None
    total, kind = int(np.prod(bins)), node.dtype()
    position = position.where(is_inside, total)
    ones = emit(FillOp, shape_of(position.value), value=np.ones((), kind)) if weight is None else line_of(weight)
    start = emit(FillOp, integers([total + 1]), value=np.zeros((), kind))
    made = part_along(emit(ScatterOp, start, position.value, cast(ones, kind), axis=0, reduction="add"), 0, 0, total)
    return _density(Formula(reshaped(made, integers(list(bins)))), width, density).value


def _columns(
    input: ir.Value, bins: Sequence[int], range: Sequence[float] | None
) -> list[tuple[Formula, tuple[float, ...] | None, int]]:
    rows = flattened(input, rank(input) - 1)
    return [
        (
            Formula(gathered(rows, integers(axis), 1)),
            None if range is None else tuple(range[2 * axis : 2 * axis + 2]),
            count,
        )
        for axis, count in enumerate(bins)
    ]
