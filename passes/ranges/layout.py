"""Data layout within padded tensors: all data before the padding, or in several parts with padding in between."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects import dims
from ...dialects.core import Op
from ...dialects.dims import Dim
from ...dialects.stepwell.elementwise import AddOp, DivOp, MaximumOp, MinimumOp, ModOp, MulOp
from ...dialects.stepwell.movement import GatherOp
from ..graph.values import constant, splat_constant, static_shape
from .extents import Extent, Factor, count_of, is_dynamic, numbered, prefix, size_of
from .rewriter import Rewriter

_INDEX = np.dtype(np.int64)


def is_apart(extent: Extent) -> bool:
    """Returns whether data along a dimension lies in several parts with padding in between."""
    return len(extent) > 1 and any(factor.is_dynamic for factor in extent[1:])


def together(extent: Extent) -> Extent:
    """The dimension with all data before the padding."""
    return prefix(count_of(extent), size_of(extent))


def compacted(graph: Rewriter, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """`value` rearranged so that all data comes before the padding along the given dimensions."""
    for axis in axes:
        extents = graph.of(value)
        if is_apart(extents[axis]):
            value = rearranged(graph, value, [*extents[:axis], together(extents[axis]), *extents[axis + 1 :]])
        elif len(extents[axis]) > 1:
            graph.extents[value] = [*extents[:axis], together(extents[axis]), *extents[axis + 1 :]]
    return value


def unmerged(graph: Rewriter, value: ir.Value, axes: Sequence[int]) -> tuple[ir.Value, list[int]]:
    """`value` with the varying ones of the given dimensions split into their factors; also the new dimensions' indices.

    A mask of one factor is only as long as the factor, and loops along it can stop at the end of the data.
    """
    extents, numbers = [], []
    for axis, extent in enumerate(graph.of(value)):
        parts = [(factor,) for factor in extent] if axis in axes and is_dynamic(extent) else [extent]
        if axis in axes:
            numbers += range(len(extents), len(extents) + len(parts))
        extents += parts
    return graph.reshaped_to(value, extents), numbers


def agree(graph: Rewriter, values: Sequence[ir.Value], places: Sequence[int | None]) -> list[ir.Value]:
    """The values with their data in the same layout along the dimension that `places` gives for each; None for none."""
    found = [
        graph.of(value)[axis]
        for value, axis in zip(values, places, strict=True)
        if axis is not None and size_of(graph.of(value)[axis]) > 1
    ]
    if all(extent == found[0] for extent in found) or not any(map(is_apart, found)):
        return list(values)
    return [
        value if axis is None else compacted(graph, value, [axis]) for value, axis in zip(values, places, strict=True)
    ]


def compact_all(graph: Rewriter, values: Sequence[ir.Value], axis: int) -> list[ir.Value]:
    """The values with all data before the padding along a dimension."""
    return [compacted(graph, value, [axis]) for value in values]


def set_operands(op: Op, values: Sequence[ir.Value]) -> None:
    """Replaces the operands of an op."""
    for place, value in enumerate(values):
        op.operation.operands[place] = value


def rearranged(graph: Rewriter, value: ir.Value, wanted: Sequence[Extent]) -> ir.Value:
    """The data of `value`, in the same order, in a tensor of other dimensions."""
    old, new = graph.of(value), list(wanted)
    first = last = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    middle, kept = old[first : len(old) - last], new[first : len(new) - last]
    if not middle or not kept:
        return graph.reshaped_to(value, new)
    merged = tuple(factor for extent in middle for factor in extent)
    flat = graph.reshaped_to(value, [*old[:first], merged, *old[len(old) - last :]])
    places = _places(graph, merged, kept)
    return graph.noted(GatherOp(flat, places, axis=first, extent=graph.end_of(merged)), new)


def _places(graph: Rewriter, factors: Sequence[Factor], wanted: Sequence[Extent]) -> ir.Value:
    """The indices in a dimension of some factors, for each element of dimensions that hold the same data."""
    return located(graph, _positions(graph, wanted), factors, wanted)


def located(graph: Rewriter, number: ir.Value, factors: Sequence[Factor], extents: Sequence[Extent]) -> ir.Value:
    """Indices in a dimension of some factors, from the numbers of elements when only data is counted.

    Args:
        graph: the rewriter.
        number: i64 element numbers, starting at 0; numbers out of range are clamped.
        factors: factors of the dimension.
        extents: dimensions of the result.
    """
    strides = [math.prod(factor.size for factor in factors[place + 1 :]) for place in range(len(factors))]
    place: ir.Value | None = None
    for index, (factor, stride) in reversed(list(enumerate(zip(factors, strides, strict=True)))):
        part = number
        if index > 0:  # not by identity: both sides of a square may be one object
            end = _number(graph, factor.extent)
            part, number = graph.noted(ModOp(number, end), extents), graph.noted(DivOp(number, end), extents)
        if stride > 1:
            part = graph.noted(MulOp(part, constant(np.array(stride))), extents)
        place = part if place is None else graph.noted(AddOp(place, part), extents)
    assert place is not None
    last = math.prod(factor.size for factor in factors) - 1
    inside = graph.noted(MinimumOp(place, constant(np.array(last))), extents)
    return graph.noted(MaximumOp(inside, constant(np.array(0))), extents)


def _positions(graph: Rewriter, wanted: Sequence[Extent]) -> ir.Value:
    """The number of each element when only data is counted."""
    factors = [factor for extent in wanted for factor in extent]
    total: ir.Value | None = None
    for place, factor in enumerate(factors):
        if factor.size == 1 and len(factors) > 1:
            continue
        inner = dims.product(other.extent for other in factors[place + 1 :])
        index = constant(numbered(factor.size).reshape(-1, *[1] * (len(factors) - place - 1)))
        step = index if inner == 1 else graph.noted(MulOp(index, _number(graph, inner)))
        total = step if total is None else graph.noted(AddOp(total, step))
    if total is None:
        total = constant(np.zeros([1] * len(factors), _INDEX))
    shape = tuple(size_of(extent) for extent in wanted)
    if math.prod(shape) != math.prod(static_shape(total) or ()):
        total = graph.noted(AddOp(total, splat_constant(_INDEX.type(0), [factor.size for factor in factors])))
    return graph.reshaped(total, shape)


def _number(graph: Rewriter, dim: Dim) -> ir.Value:
    return constant(np.array(dim)) if isinstance(dim, int) else graph.number(dim, _INDEX)
