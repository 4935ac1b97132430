"""Ops for which it matters where elements are along dimensions that vary: sorting, running totals, scattering."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell.cumulative import CumulativeOp
from ....dialects.stepwell.elementwise import AddOp, CastOp, DivOp, LessOp, ModOp, MulOp, NotOp, SelectOp
from ....dialects.stepwell.movement import SampleOp, ScatterOp
from ....dialects.stepwell.pooling import MaxPoolIndicesOp
from ....dialects.stepwell.sorting import TopKOp
from ....dialects.stepwell.windows import CHANNELS_FIRST
from ..values import constant, dtype_of, shape_of
from .checks import require_same, require_static
from .extents import Extent, count_of, is_dynamic, prefix
from .layout import agree, compacted, is_apart, located
from .rewriter import Rewriter, Rule, replace
from .rules import Result, States
from .snapshot import BoundedError
from .windows import windows

_INDEX = np.dtype(np.int64)


def top_k(graph: Rewriter, op: TopKOp, states: States) -> Result | None:
    """Elements without data come last."""
    require_same(states, but=("k",))
    shape = shape_of(op.result) or ()
    last = len(shape) - 1
    taken = graph.fit([state.attributes["k"] for state in states], "how many elements are taken")
    value = compacted(graph, op.input, [last])
    extents = graph.of(value)
    found = [*extents[:last], prefix(taken, shape[last])]
    if not is_dynamic(extents[last]):
        op.operation.operands[0] = value
        return [found]
    count, entry = graph.number(count_of(extents[last]), _INDEX), graph.end_of(extents[last])
    replace(op, graph.noted(TopKOp(value, count, k=op.k, largest=op.largest, extent=entry), found))
    return None


def cumulative(graph: Rewriter, op: CumulativeOp, states: States) -> Result:
    """What is no data comes last, so that it changes no total; where the last is the first, it is neutral."""
    require_same(states)
    axis = op.axis % len(shape_of(op.input) or ())
    value = compacted(graph, op.input, [axis])
    if op.reverse:
        value = graph.kept_here(value, [axis], 0.0 if op.mode == "sum" else 1.0)
    op.operation.operands[0] = value
    return [graph.of(value)]


def scatter(graph: Rewriter, op: ScatterOp, states: States) -> None:
    """Updates without data come last, and are not applied, or have places outside; negative places count from the end.

    Where the data of the input lies apart, places count among that alone.
    """
    require_same(states)
    axis = op.axis % len(shape_of(op.input) or ())
    input, indices, updates = op.input, *agree(graph, [op.indices, op.updates], [axis] * 2)
    for batch in range(axis):
        input, indices, updates = agree(graph, [input, indices, updates], [batch] * 3)
    data, size = graph.of(input), (shape_of(input) or ())[axis]
    of_indices, dtype = graph.of(indices), dtype_of(indices)
    outside = constant(np.array(size, dtype)) if size <= np.iinfo(dtype).max else None
    if is_dynamic(data[axis]):
        zero, end = constant(np.zeros((), dtype)), graph.number(count_of(data[axis]), dtype)
        from_end = graph.noted(AddOp(indices, end), of_indices)
        indices = graph.noted(SelectOp(graph.noted(LessOp(indices, zero), of_indices), from_end, indices), of_indices)
        if is_apart(data[axis]):
            indices = _located(graph, indices, data[axis], end, outside)
    count, entry, along = None, -1, of_indices[axis]
    if is_apart(along):
        if outside is None:
            raise BoundedError("places of a type that cannot name one outside")
        indices = graph.kept_here(indices, [axis], float(size))
    if along[0].is_dynamic:
        inner = math.prod(factor.size for factor in along[1:])
        count, entry = graph.number(along[0].extent * inner, _INDEX), graph.end_of(along)
    made = ScatterOp(input, indices, updates, count, axis=op.axis, reduction=op.reduction, extent=entry)
    replace(op, graph.noted(made, data))


def _located(graph: Rewriter, indices: ir.Value, data: Extent, end: ir.Value, outside: ir.Value | None) -> ir.Value:
    """Places in a dimension of which data lies apart, from numbers among the data; of those outside, one outside.

    Args:
        graph: the rewriter.
        indices: the numbers.
        data: the dimension.
        end: the number of elements that are data.
        outside: the size of the dimension; None if the type of the indices has no such number.
    """
    extents, dtype = graph.of(indices), dtype_of(indices)
    if outside is None:
        raise BoundedError("places of a type that cannot name one outside")
    wide = indices if dtype == _INDEX else graph.noted(CastOp(indices, dtype=_INDEX), extents)
    place = located(graph, wide, data, extents)
    place = place if dtype == _INDEX else graph.noted(CastOp(place, dtype=dtype), extents)
    for is_inside in (LessOp(indices, end), NotOp(LessOp(indices, constant(np.zeros((), dtype))))):
        place = graph.noted(SelectOp(graph.noted(is_inside, extents), place, outside), extents)
    return place


def max_pool_indices(graph: Rewriter, op: MaxPoolIndicesOp, states: States) -> Result | None:
    """Places count elements of the data, not of what surrounds it."""
    found = windows(graph, op, states)
    if found is None:
        raise BoundedError("windows move with the sizes")
    extents, shape = graph.of(op.input), shape_of(op.input) or ()
    spatial = range(2, len(shape)) if op.layout == CHANNELS_FIRST else range(1, len(shape) - 1)
    if not any(is_dynamic(extents[axis]) for axis in list(spatial)[1:]):
        return found
    index = graph.noted(MaxPoolIndicesOp(op.input, **op.attribute_values()), found[0])
    sizes = [shape[axis] for axis in spatial]
    counts = [graph.number(count_of(extents[axis]), _INDEX) for axis in spatial]
    replace(op, _renumbered(graph, index, sizes, counts))
    return None


def _renumbered(graph: Rewriter, index: ir.Value, sizes: Sequence[int], counts: Sequence[ir.Value]) -> ir.Value:
    """Places in a box of some sizes as places in one of others."""
    extents, total = graph.of(index), None
    for place, count in enumerate(counts):
        inner = constant(np.array(math.prod(sizes[place + 1 :])))
        size = constant(np.array(sizes[place]))
        along = graph.noted(ModOp(graph.noted(DivOp(index, inner), extents), size), extents)
        total = (
            along if total is None else graph.noted(AddOp(graph.noted(MulOp(total, count), extents), along), extents)
        )
    assert total is not None
    return total


def sample(graph: Rewriter, op: SampleOp, states: States) -> Result:
    """At any number of positions, in images of one size: where there is no data, positions may be anywhere."""
    require_same(states)
    images, positions = graph.of(op.input), graph.of(op.positions)
    require_static(graph, op, range(1, len(images)))
    if any(is_dynamic(extent) for extent in (images[0], positions[0])) and images[0] != positions[0]:
        raise BoundedError("the batch of the positions is not that of the images")
    return [[images[0], images[1], *positions[2:]]]


RULES: dict[type[Op], Rule] = {
    SampleOp: sample,
    TopKOp: top_k,
    CumulativeOp: cumulative,
    ScatterOp: scatter,
    MaxPoolIndicesOp: max_pool_indices,
}
