"""Elements at computed indices: gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicBroadcastToOp, ScatterOp
from ....dialects.stepwell.shape import FillOp
from ...build import (
    cast,
    dims_of,
    dtype,
    emit,
    gathered,
    integers,
    joined,
    line_of,
    part_along,
    rank,
    reshaped,
    running,
    scalar,
    shape,
    shape_of,
    transposed,
)
from ...errors import UnsupportedError
from ...index_arithmetic import (
    elements,
    extent,
    flat,
    from_front,
    inside,
    merged,
    scattered,
    slices_of,
    unless_outside,
    with_elements,
)
from ..node import AtenNode, axis_of
from ..registry import imports
from .selecting import selected_by_mask

_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
_IDENTITIES = {"sum": 0, "prod": 1, "mean": 0}


@imports("aten.embedding.default")
def embedding(node: AtenNode, weight: ir.Value, indices: ir.Value) -> ir.Value:
    """The rows of a table at indices."""
    return gathered(weight, indices, 0)


@imports("aten.index_select.default")
def index_select(node: AtenNode, input: ir.Value, dim: int, index: ir.Value) -> ir.Value:
    """The slices at indices along a dimension."""
    if rank(input) == 0:
        return input
    line = reshaped(index, integers([1])) if rank(index) == 0 else index
    return gathered(input, line, axis_of(input, dim))


@imports("aten.gather.default")
def gather(node: AtenNode, input: ir.Value, dim: int, index: ir.Value) -> ir.Value:
    """One element per index, at the position of the index except along `dim`."""
    if rank(input) == 0:
        return reshaped(input, shape_of(index))
    if rank(index) == 0:
        return reshaped(elements(input, reshaped(index, integers([1])), 0), integers([]))
    return elements(input, index, axis_of(input, dim))


@imports("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(node: AtenNode, input: ir.Value, indices: Sequence[ir.Value | None]) -> ir.Value:
    """Elements or slices at indices into one or several dimensions, which broadcast.

    The dimensions of the indices take the place of the indexed ones if these are neighbours, else they come first.
    """
    axes = _indexed(indices)
    mask = indices[axes[0]]
    if len(axes) == 1 and mask is not None and dtype(mask) == np.bool_:
        return selected_by_mask(node, input, mask, axes[0])
    if len(axes) == 1:
        return gathered(input, _number(indices[axes[0]]), axes[0])
    rest = [axis for axis in range(rank(input)) if axis not in axes]
    moved = transposed(input, [*axes, *rest])
    place = _flat_place(moved, [indices[axis] for axis in axes])
    made = gathered(merged(moved, len(axes)), place, 0)
    if axes != list(range(axes[0], axes[0] + len(axes))) or not axes[0]:
        return made
    count = rank(place)
    order = [*range(count, count + axes[0]), *range(count), *range(count + axes[0], rank(made))]
    return transposed(made, order)


def _indexed(indices: Sequence[ir.Value | None]) -> list[int]:
    return [axis for axis, item in enumerate(indices) if item is not None]


def _number(value: ir.Value | None) -> ir.Value:
    """An index of integers.

    Raises:
        UnsupportedError: it is a mask, beside other indices.
    """
    assert value is not None
    if dtype(value) == np.bool_:
        raise UnsupportedError("selects elements by a mask and other indices at once, which is not supported")
    return cast(value, np.int64)


def _flat_place(input: ir.Value, indices: Sequence[ir.Value | None]) -> ir.Value:
    """The index of each slice in the first dimensions of `input`, merged; indices out of range are clipped."""
    chosen = [inside(_number(item), extent(input, axis)) for axis, item in enumerate(indices)]
    return flat(input, chosen)


@imports("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    node: AtenNode, input: ir.Value, indices: Sequence[ir.Value | None], values: ir.Value, accumulate: bool
) -> ir.Value:
    """A tensor with the elements or slices at indices replaced, or added to; a mask selects by condition."""
    axes, values = _indexed(indices), cast(values, dtype(input))
    mask = indices[axes[0]]
    if len(axes) == 1 and mask is not None and dtype(mask) == np.bool_:
        return _put_where(input, mask, values, axes[0], accumulate)
    if len(axes) == 1 and mask is not None and rank(mask) == 1:
        return _put_slices(input, axes[0], cast(mask, np.int64), values, "add" if accumulate else "none")
    rest = [axis for axis in range(rank(input)) if axis not in axes]
    order = [*axes, *rest]
    moved = transposed(input, order)
    counts = [extent(moved, axis) for axis in range(len(axes))]
    chosen = [from_front(_number(indices[axis]), count) for axis, count in zip(axes, counts, strict=True)]
    place = unless_outside(flat(moved, chosen), chosen, counts)
    inner = dims_of(moved, len(axes), rank(moved))
    count, is_inside = rank(place), axes == list(range(axes[0], axes[0] + len(axes)))
    before = axes[0] if is_inside else 0
    # Values are in the order of the result of indexing: dimensions before neighbouring indexed ones come first.
    whole = joined([part_along(inner, 0, 0, before), shape_of(place), part_along(inner, 0, before, len(rest))])
    spread = emit(DynamicBroadcastToOp, values, whole)
    updates = transposed(spread, [*range(before, before + count), *range(before), *range(before + count, rank(spread))])
    put = scattered(moved, place, updates, len(axes), "add" if accumulate else "none")
    return transposed(put, [order.index(axis) for axis in range(rank(input))])


def _put_slices(input: ir.Value, axis: int, places: ir.Value, values: ir.Value, reduction: str) -> ir.Value:
    """A tensor with the slices at indices along one dimension replaced, or added to."""
    before, after = dims_of(input, 0, axis), dims_of(input, axis + 1, rank(input))
    updates = emit(DynamicBroadcastToOp, values, joined([before, shape_of(places), after]))
    spread = emit(DynamicBroadcastToOp, places, joined([before, shape_of(places)]))
    return emit(ScatterOp, input, spread, updates, axis=axis, reduction=reduction)


def _put_where(input: ir.Value, mask: ir.Value, values: ir.Value, axis: int, accumulate: bool) -> ir.Value:
    """A tensor with values, in order, where a mask over some dimensions holds.

    values [a, k, b] --> [a, m..., b], of which the n-th true position of the mask [m...] takes value n
    """
    trailing = rank(input) - axis - rank(mask)
    line = rank(values) - trailing - 1
    if line >= 0 and shape(values)[line] == 0:
        return input
    if line >= 0 and shape(values)[line] != 1:
        values = gathered(
            values, reshaped(running(line_of(cast(mask, np.int64)), 0, exclusive=True), shape_of(mask)), line
        )
    elif line >= 0:
        ones = integers([1] * rank(mask))
        values = reshaped(values, joined([dims_of(values, 0, line), ones, dims_of(values, line + 1, rank(values))]))
    if trailing:
        mask = reshaped(mask, joined([shape_of(mask), integers([1] * trailing)]))
    return emit(ew.SelectOp, mask, emit(ew.AddOp, input, values) if accumulate else values, input)


@imports("aten.scatter.src")
def scatter(node: AtenNode, input: ir.Value, dim: int, index: ir.Value, src: ir.Value) -> ir.Value:
    """A tensor with one element per index replaced."""
    return _scattered(input, dim, index, src, "none")


@imports("aten.scatter.value")
def scatter_value(node: AtenNode, input: ir.Value, dim: int, index: ir.Value, value: Any) -> ir.Value:
    """A tensor with a number written at one position per index."""
    number = cast(value, dtype(input)) if isinstance(value, ir.Value) else scalar(value, input)
    return _scattered(input, dim, index, emit(DynamicBroadcastToOp, number, shape_of(index)), "none")


@imports("aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_by(
    node: AtenNode, input: ir.Value, dim: int, index: ir.Value, reduce: str, src: Any = None, value: Any = None
) -> ir.Value:
    """A tensor with one element per index added to or multiplied."""
    mode = {"add": "add", "multiply": "mul"}[reduce]
    if src is None:
        src = emit(DynamicBroadcastToOp, scalar(value, input), shape_of(index))
    if dtype(input).kind == "b":
        made = _scattered(cast(input, np.uint8), dim, index, cast(src, np.uint8), "max" if mode == "add" else "min")
        return cast(made, np.bool_)
    return _scattered(input, dim, index, src, mode)


@imports("aten.scatter_add.default")
def scatter_add(node: AtenNode, input: ir.Value, dim: int, index: ir.Value, src: ir.Value) -> ir.Value:
    """A tensor with one element per index added to."""
    return _scattered(input, dim, index, src, "add")


@imports("aten.scatter_reduce.two")
def scatter_reduce(
    node: AtenNode, input: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduce: str, include_self: bool
) -> ir.Value:
    """A tensor with one element per index combined with its own, which `include_self` may leave out."""
    kind = dtype(input)
    if kind.kind == "b":
        input, src = cast(input, np.uint8), cast(src, np.uint8)
        return cast(scatter_reduce(node, input, dim, index, src, reduce, include_self), np.bool_)
    base = input
    updates = None if include_self and reduce != "mean" else _updates(input, dim, index)
    if updates is not None and not include_self:
        limits = np.iinfo(kind) if kind.kind in "iu" else np.array([-np.inf, np.inf])
        ends = (limits.min, limits.max) if isinstance(limits, np.iinfo) else (-np.inf, np.inf)
        start = {"amax": ends[0], "amin": ends[1], **_IDENTITIES}[reduce]
        base = emit(ew.SelectOp, cast(updates, np.bool_), scalar(start, input), input)
    if updates is None or reduce != "mean":
        return _scattered(base, dim, index, src, _REDUCTIONS[reduce])
    total = _scattered(base, dim, index, src, "add")
    terms = emit(ew.AddOp, updates, scalar(1, updates)) if include_self else updates
    count = cast(emit(ew.MaximumOp, terms, scalar(1, terms)), kind)
    if kind.kind in "iu":
        return emit(ew.DivOp, emit(ew.SubOp, total, emit(ew.ModOp, total, count)), count)
    return emit(ew.DivOp, total, count)


def _updates(input: ir.Value, dim: int, index: ir.Value) -> ir.Value:
    """The number of updates of each element as i64, in a shape that broadcasts to the input's."""
    axis = axis_of(input, dim) if rank(input) else 0
    slices = slices_of(input, index, axis) if rank(input) and rank(index) else None
    if slices is None:
        ones = emit(FillOp, shape_of(index), value=np.ones((), np.int64))
        return _scattered(emit(FillOp, shape_of(input), value=np.zeros((), np.int64)), dim, index, ones, "add")
    inner = integers([1] * (rank(input) - axis - 1))
    ones = emit(FillOp, joined([shape_of(slices), inner]), value=np.ones((), np.int64))
    start = emit(FillOp, joined([dims_of(input, 0, axis + 1), inner]), value=np.zeros((), np.int64))
    return emit(ScatterOp, start, cast(slices, np.int64), ones, axis=axis, reduction="add")


def _scattered(input: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduction: str) -> ir.Value:
    if rank(input) == 0:
        line = integers([1])
        made = _scattered(*(reshaped(input, line), 0, reshaped(index, line), reshaped(src, line)), reduction)
        return reshaped(made, integers([]))
    index, src = (reshaped(item, integers([1])) if rank(item) == 0 else item for item in (index, src))
    for axis, (count, have) in enumerate(zip(shape(index), shape(src), strict=True)):
        if count != have and isinstance(count, int):
            src = part_along(src, axis, 0, count)
    return with_elements(input, index, src, axis_of(input, dim), reduction)


@imports("aten.masked_scatter.default")
def masked_scatter(node: AtenNode, input: ir.Value, mask: ir.Value, source: ir.Value) -> ir.Value:
    """The elements of a source, in order, where a mask holds: its n-th true position takes element n."""
    kept, whole = emit(DynamicBroadcastToOp, mask, node.shape()), node.shape()
    line = line_of(cast(kept, np.int64))
    number = running(line, 0, exclusive=True)
    taken = gathered(line_of(source), number, 0)
    base = emit(DynamicBroadcastToOp, input, whole)
    return emit(ew.SelectOp, kept, reshaped(taken, whole), base)


@imports("aten.index_reduce.default")
def index_reduce(
    node: AtenNode, input: ir.Value, dim: int, index: ir.Value, source: ir.Value, reduce: str, include_self: bool
) -> ir.Value:
    """A tensor with the slices at indices combined with those of a source."""
    axis = axis_of(input, dim)
    ones = integers([1] * axis), integers([1] * (rank(source) - axis - 1))
    line = reshaped(index, joined([ones[0], shape_of(index), ones[1]])) if rank(source) else index
    whole = emit(DynamicBroadcastToOp, line, shape_of(source))
    return scatter_reduce(node, input, dim, whole, source, reduce, include_self)


@imports("aten.put.default")
def put(node: AtenNode, input: ir.Value, index: ir.Value, source: ir.Value, accumulate: bool) -> ir.Value:
    """The flat tensor with the elements at indices replaced, or added to."""
    made = index_put(node, line_of(input), [line_of(index)], line_of(source), accumulate)
    return reshaped(made, shape_of(input))
