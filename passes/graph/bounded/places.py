"""Ops for which it matters where elements are along dimensions that vary: sorting, running totals, scattering."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell.cumulative import CumulativeOp
from ....dialects.stepwell.elementwise import AddOp, DivOp, LessOp, ModOp, MulOp, NotOp, SelectOp
from ....dialects.stepwell.movement import SampleOp, ScatterOp
from ....dialects.stepwell.pooling import MaxPoolIndicesOp
from ....dialects.stepwell.sorting import TopKOp
from ....dialects.stepwell.windows import CHANNELS_FIRST
from ....dialects.types import is_float
from ..values import constant, dtype_of, shape_of
from .checks import require_same, require_static
from .extents import count_of, is_dynamic, prefix
from .layout import agree, compacted
from .rewriter import Rewriter, Rule, least_of, replace
from .rules import Result, States
from .snapshot import BoundedError
from .windows import windows

_INDEX = np.dtype(np.int64)


def top_k(graph: Rewriter, op: TopKOp, states: States) -> Result | None:
    """What is no data comes last: it is as great or as small as anything, and equal elements stay in order."""
    require_same(states, but=("k",))
    shape = shape_of(op.result) or ()
    last = len(shape) - 1
    count = graph.fit([state.attributes["k"] for state in states], "how many elements are taken")
    value = compacted(graph, op.input, [last])
    extents = graph.of(value)
    found = [*extents[:last], prefix(count, shape[last])]
    if not is_dynamic(extents[last]):
        op.operation.operands[0] = value
        return [found]
    dtype = dtype_of(value)
    if op.largest or is_float(dtype):
        otherwise = least_of(dtype) if op.largest else math.nan
        op.operation.operands[0] = graph.kept_here(value, [last], otherwise)
        return [found]
    # The greatest integer of 64 bits is no float64, as which masks hold numbers: ~x has the order turned round.
    kept = graph.kept_here(graph.noted(NotOp(value), extents), [last], least_of(dtype))
    replace(op, graph.noted(TopKOp(kept, k=op.k, largest=True), found))
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


def scatter(graph: Rewriter, op: ScatterOp, states: States) -> Result:
    """Updates without data have places outside, and are dropped; negative places count from where the data ends."""
    require_same(states)
    axis = op.axis % len(shape_of(op.input) or ())
    input, indices, updates = (compacted(graph, value, [axis]) for value in op.operation.operands)
    for batch in range(axis):
        input, indices, updates = agree(graph, [input, indices, updates], [batch] * 3)
    data, size = graph.of(input), (shape_of(input) or ())[axis]
    of_indices, dtype = graph.of(indices), dtype_of(indices)
    if is_dynamic(data[axis]):
        end = graph.number(count_of(data[axis]), dtype)
        from_end = graph.noted(AddOp(indices, end), of_indices)
        is_negative = graph.noted(LessOp(indices, constant(np.zeros((), dtype))), of_indices)
        indices = graph.noted(SelectOp(is_negative, from_end, indices), of_indices)
    if is_dynamic(of_indices[-1]) and size > np.iinfo(dtype).max:
        raise BoundedError("places of a type that cannot name one outside")
    indices = graph.kept_here(indices, [axis], float(size))
    for place, value in enumerate((input, indices, updates)):
        op.operation.operands[place] = value
    return [data]


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
