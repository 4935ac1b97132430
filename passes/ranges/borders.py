"""Rules for padding around data of varying size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects.dims import Dim
from ...dialects.stepwell.elementwise import (
    AbsOp,
    AndOp,
    GreaterEqualOp,
    LessOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    SelectOp,
    SubOp,
)
from ...dialects.stepwell.movement import GatherOp, PadOp
from ..graph.values import constant, dtype_of, static_shape
from .checks import require_static_attributes
from .extents import count_of, is_dynamic, numbered, prefix, size_of, whole
from .layout import compacted
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState

_INDEX = np.dtype(np.int64)


@dataclass(frozen=True)
class Border:
    """The border around the data along one dimension.

    Attributes:
        axis: the dimension.
        low: number of elements before the data; negative numbers crop it.
        extent: number of elements with the border.
        size: upper bound of `extent`.
    """

    axis: int
    low: Dim
    extent: Dim
    size: int


def bordered(graph: Rewriter, value: ir.Value, border: Border, mode: str, otherwise: float) -> ir.Value:
    """`value` with a border, gathered element by element."""
    old = graph.of(value)
    count, size = count_of(old[border.axis]), (static_shape(value) or ())[border.axis]
    extents = [*old[: border.axis], prefix(border.extent, border.size), *old[border.axis + 1 :]]
    positions = graph.noted(SubOp(constant(numbered(border.size)), _number(graph, border.low)))
    end, zero = _number(graph, count), constant(np.array(0))
    inside = graph.noted(MinimumOp(_repeated_indices(graph, positions, count, mode), constant(np.array(size - 1))))
    indices, entry = graph.noted(MaximumOp(inside, zero)), graph.end_of(old[border.axis])
    taken = graph.noted(GatherOp(value, indices, axis=border.axis, extent=entry), extents)
    if mode != "constant":
        graph.is_bordered(taken, border.axis, value, None)
        return taken
    is_data = graph.noted(AndOp(graph.noted(GreaterEqualOp(positions, zero)), graph.noted(LessOp(positions, end))))
    along = (border.size, *[1] * (len(old) - border.axis - 1))
    fill = constant(np.array(otherwise).astype(dtype_of(value)))
    result = graph.noted(SelectOp(graph.reshaped(is_data, along), taken, fill), extents)
    graph.is_bordered(result, border.axis, value, otherwise)
    return result


def _repeated_indices(graph: Rewriter, positions: ir.Value, count: Dim, mode: str) -> ir.Value:
    """Maps positions before and after the data to the indices of the data that the mode repeats there."""
    end, one = _number(graph, count), constant(np.array(1))
    last = graph.noted(SubOp(end, one))
    if mode == "wrap":
        return graph.noted(ModOp(positions, end))
    if mode == "edge":
        return graph.noted(MinimumOp(graph.noted(MaximumOp(positions, constant(np.array(0)))), last))
    if mode == "reflect":
        # Reflections at both ends repeat with this period.
        period = graph.noted(MaximumOp(graph.noted(MulOp(last, constant(np.array(2)))), one))
        along = graph.noted(ModOp(positions, period))
        return graph.noted(SubOp(last, graph.noted(AbsOp(graph.noted(SubOp(along, last))))))
    return positions


def _number(graph: Rewriter, dim: Dim) -> ir.Value:
    return constant(np.array(dim)) if isinstance(dim, int) else graph.number(dim, _INDEX)


@PADDING.attach(PadOp)
def pad(graph: Rewriter, op: PadOp, state: OpState) -> ResultExtents | None:
    """Pads after masking the padding behind the data; non-constant borders and varying offsets use a gather instead."""
    require_static_attributes(state, but=("low", "high"))
    shape, rank = static_shape(op.result) or (), len(graph.of(op.input))
    lows = [state.attributes["low"][axis] for axis in range(rank)]
    wanted = [state.shapes[0][axis] for axis in range(rank)]
    padded = [axis for axis in range(rank) if _differs(state, axis)]
    value = compacted(graph, op.input, padded)
    op.operation.operands[0] = value
    extents = graph.of(value)
    varying = [axis for axis in padded if is_dynamic(extents[axis]) or not isinstance(wanted[axis], int)]
    is_plain = op.mode == "constant" and all(isinstance(lows[axis], int) for axis in varying)
    if is_plain or not any(state.attributes["high"][axis] != 0 or lows[axis] != op.low[axis] for axis in varying):
        after = [axis for axis in varying if not _is_cut(state.attributes["high"][axis])]
        op.operation.operands[0] = graph.masked(value, after, op.value)
        found = [prefix(wanted[axis], shape[axis]) if axis in padded else extents[axis] for axis in range(rank)]
        # Where data ends before its room does, the padding starts inside of the room, which is masked.
        rooms = zip(shape, op.low, map(size_of, extents), strict=True)
        high = tuple(room - low - size for room, low, size in rooms)
        replace(op, graph.noted(PadOp(op.input, low=op.low, high=high, mode=op.mode, value=op.value), found))
        return None
    for axis in varying:
        border = Border(axis, lows[axis], wanted[axis], shape[axis])
        value = bordered(graph, value, border, op.mode, op.value)
    others = [axis for axis in padded if axis not in varying]
    if others:
        low = tuple(op.low[axis] if axis in others else 0 for axis in range(rank))
        high = tuple(op.high[axis] if axis in others else 0 for axis in range(rank))
        found = [whole(shape[axis]) if axis in others else extent for axis, extent in enumerate(graph.of(value))]
        value = graph.noted(PadOp(value, low=low, high=high, mode=op.mode, value=op.value), found)
    replace(op, value)
    return None


def _is_cut(high: Dim) -> bool:
    """Returns whether a border is a number less than 0, which removes elements."""
    return isinstance(high, int) and high < 0


def _differs(state: OpState, axis: int) -> bool:
    return any(state.attributes[name][axis] != 0 for name in ("low", "high"))
