"""Liveness rules for ops that work along some dimensions: live in full along these, a prefix along the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from ...dialects.registry import view_of
from ...dialects.stepwell.axes import AlongAxesOp
from ...dialects.stepwell.movement import RowOp, SampleOp, ScatterOp, WithRowOp
from ...dialects.stepwell.reduction import ArgmaxOp, ReductionOp
from ...dialects.stepwell.sorting import TopKOp
from .prefixes import DEMAND, Prefix, all_of


@DEMAND.attach(AlongAxesOp)
def along_axes(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """In full along the dimensions that the op combines, the result's prefixes along the others."""
    view = view_of(op)
    assert isinstance(view, AlongAxesOp)
    if index:
        return all_of(op.operands[index])
    whole = view.combined_axes(len(needed))
    return [None if dim in whole else prefix for dim, prefix in enumerate(needed)]


@DEMAND.attach(ReductionOp, ArgmaxOp)
def reduction(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """In full along the reduced axes, the result's prefixes along the others."""
    found, attributes = all_of(op.operands[0]), _attributes(op)
    axes = {axis % len(found) for axis in attributes.get("axes", (attributes.get("axis"),))}
    kept = [axis for axis in range(len(found)) if axis not in axes]
    places = kept if len(needed) == len(found) else range(len(kept))
    for axis, where in zip(kept, places, strict=True):
        found[axis] = needed[where]
    return found


@DEMAND.attach(TopKOp)
def top_k(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """Whole rows, or only the elements that are not masked out (`extent`)."""
    if index:
        return []
    view = TopKOp(op)
    return [*needed[:-1], table[view.extent] if view.extent >= 0 else None]


@DEMAND.attach(RowOp)
def row(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """Every row, each with the prefixes of the result; the whole index."""
    return all_of(op.operands[index]) if index else [None, *needed]


@DEMAND.attach(WithRowOp)
def with_row(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The prefixes of the result for the tensor and for the new row; the whole index."""
    return [list(needed), list(needed[1:]), all_of(op.operands[2])][index]


@DEMAND.attach(ScatterOp)
def scatter(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The prefixes of the result; for updates and their indices, only the applied ones along the axis."""
    view = ScatterOp(op)
    axis = view.axis % len(needed)
    applied = table[view.extent] if view.extent >= 0 else None
    if index == 0:
        return list(needed)
    if index == 1:
        # Without a count every update is applied, so all indices must be valid.
        return [*needed[:axis], applied] if applied is not None else all_of(op.operands[1])
    return [*needed[:axis], applied, *needed[axis + 1 :]] if index == 2 else []


@DEMAND.attach(SampleOp)
def sample(op: ir.Operation, index: int, needed: Sequence[Prefix], table: Sequence[Any]) -> Sequence[Prefix]:
    """The batch and channel prefixes of the result, in full along the others; all of the operand `positions`."""
    found = all_of(op.operands[index])
    return found if index else [*needed[:2], *found[2:]]


def _attributes(op: ir.Operation) -> dict[str, Any]:
    view = view_of(op)
    assert view is not None
    return view.attribute_values()
