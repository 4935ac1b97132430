"""Guards on data: indices must be in range, and integers must not be divided by zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell.constant import ParameterOp
from ....dialects.stepwell.elementwise import CastOp, EqualOp, LessOp, MaximumOp, NotOp
from ....dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp, ReshapeOp, SqueezeOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceMinOp
from ....dialects.types import is_integer
from ....runtime.execution.data_check import DataCheck
from ... import index_arithmetic as places
from ...build import cast, constant, dtype, emit, integers, joined, rank, reshaped, scalar
from .node import Node
from .scope import Guard

_PASSING = tuple(op.OPERATION_NAME for op in (CastOp, DynamicReshapeOp, ExpandDimsOp, ReshapeOp, SqueezeOp))


def check_indices(node: Node, indices: ir.Value, data: ir.Value, axes: Sequence[int]) -> None:
    """Guards the indices of a node if the import requests it.

    Args:
        node: the node.
        indices: its indices; if there are several axes, the last dimension has one for each.
        data: the tensor that is indexed.
        axes: the dimensions of `data` that are indexed.
    """
    source = _source(node, indices)
    if source is None:
        return
    extents = [places.extent(data, axis) for axis in axes]
    known = node.known(indices)
    if known is not None:
        if not known.size:
            return
        columns = known.reshape(-1, len(axes)).astype(np.int64)
        ends = constant(np.stack([columns.min(0), columns.max(0)]))  # a large constant as a whole would not fold
        condition = _all_inside(ends, _listed(extents))
    else:
        condition = _all_inside(cast(indices, np.int64), extents[0] if len(extents) == 1 else _listed(extents))
    numbers = _fixed_extents(node, data, axes)
    _guard(node, condition, DataCheck(node.name, node.op_type, source, numbers))


def check_divisor(node: Node, divisor: ir.Value) -> None:
    """Guards the integer divisor of a node if the import requests it."""
    if not is_integer(dtype(divisor)):
        return
    source = _source(node, divisor)
    if source is None:
        return
    known = node.known(divisor)
    if known is not None:
        condition = constant(np.array(known.all()))
    else:
        condition = _all(emit(NotOp, emit(EqualOp, divisor, scalar(0, divisor))))
    _guard(node, condition, DataCheck(node.name, node.op_type, source))


def _source(node: Node, value: ir.Value) -> str | None:
    """The input that a value comes straight from, "" for other values; None if the value is not to be checked."""
    checked = node.importer.checked
    if not checked or not node.scope.is_checked:
        return None
    origin = value
    while not isinstance(origin.owner, ir.Block) and origin.owner.name in _PASSING:
        origin = origin.owner.operands[0]
    name = node.importer.input_name(ir.BlockArgument(origin)) if isinstance(origin.owner, ir.Block) else None
    return "" if name is None and checked is True else name


def _all_inside(indices: ir.Value, extents: ir.Value) -> ir.Value:
    """True if every index is at least -extent and less than extent.

    Both hold if `max(index, ~index)` is less than extent, so that one reduction of the indices serves. There is one
    extent, or one for each index along the last dimension.
    """
    reach = emit(MaximumOp, indices, emit(NotOp, indices))
    axes = tuple(range(rank(indices) - rank(extents)))
    return _all(emit(LessOp, emit(ReduceMaxOp, reach, axes=axes, keepdims=False) if axes else reach, extents))


def _listed(numbers: Sequence[ir.Value]) -> ir.Value:
    return joined([reshaped(number, integers([1])) for number in numbers])


def _all(flags: ir.Value) -> ir.Value:
    return emit(ReduceMinOp, flags, axes=tuple(range(rank(flags))), keepdims=False) if rank(flags) else flags


def _guard(node: Node, condition: ir.Value, check: DataCheck) -> None:
    known = node.known(condition)
    if known is None or not known.all():
        node.scope.guards.append(Guard(condition, check.text))


def _fixed_extents(node: Node, data: ir.Value, axes: Sequence[int]) -> tuple[int, ...]:
    """Extents that are the same in every call; empty if one may vary, as within a range of sizes."""
    dims = [ir.RankedTensorType(data.type).shape[axis] for axis in axes]
    is_stored = not isinstance(data.owner, ir.Block) and data.owner.name == ParameterOp.OPERATION_NAME
    if not (is_stored or node.known(data) is not None or node.importer.is_static):
        return ()
    return tuple(dims) if all(dim >= 0 for dim in dims) else ()
