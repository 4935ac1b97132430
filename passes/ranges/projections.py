"""Projections: values whose elements depend on only one index of another value along some dimension."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir import ir

from ...dialects.stepwell.constant import ParameterOp
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.elementwise import AddOp
from ...dialects.stepwell.movement import AppendOp, ReshapeOp, ResizeOp, TransposeOp
from ..graph.values import static_shape
from ..ir.rewriting import defining_op
from .extents import Extent


def source_of(value: ir.Value, axis: int, of: Callable[[ir.Value], list[Extent]]) -> tuple[ir.Value, int] | None:
    """The value that `value` is a projection of, and its dimension; `of` returns the dimensions of a value."""
    found = None
    while not isinstance(value.owner, ir.Block):
        append = defining_op(value, AppendOp)
        if append is not None and append.axis % len(of(value)) == axis:
            return value, axis  # it writes zeros behind the data
        step = _step(value, axis, of)
        if step is None:
            break
        position, axis = step
        op = value.owner.operation
        value = op.operands[position]
        if op.name == MatmulOp.OPERATION_NAME:
            found = value, axis
    return found


def _step(value: ir.Value, axis: int, of: Callable[[ir.Value], list[Extent]]) -> tuple[int, int] | None:
    """The only operand that a value depends on along `axis`, and its dimension; None if there are several."""
    owner = value.owner
    rank = len(of(value))
    if (op := defining_op(value, TransposeOp)) is not None:
        return 0, op.permutation[axis]
    if (op := defining_op(value, ReshapeOp)) is not None:
        same = [dim for dim, extent in enumerate(of(op.input)) if extent == of(value)[axis]]
        return (0, same[0]) if len(same) == 1 else None
    if (op := defining_op(value, MatmulOp)) is not None:
        is_projection = defining_op(op.rhs, ParameterOp) is not None and not op.transpose_lhs and axis < rank - 1
        return (0, axis) if is_projection else None
    if (op := defining_op(value, AddOp)) is not None:
        for position, other in ((0, op.rhs), (1, op.lhs)):
            if defining_op(other, ParameterOp) is not None and of(owner.operands[position]) == of(value):
                return position, axis
    return None


def repeats_elements(op: ResizeOp, axis: int) -> bool:
    """Returns whether a resize repeats each element along a dimension an integer number of times, in order."""
    before, after = (static_shape(value) or () for value in (op.input, op.result))
    count, rest = divmod(after[axis], before[axis])
    if rest or op.mode != "nearest" or float(op.scales[axis]) != count:
        return False
    places = np.arange(before[axis], dtype=np.float64)
    attributes = op.attribute_values() | {"sizes": (after[axis],), "scales": np.asarray(op.scales)[axis : axis + 1]}
    return bool(np.array_equal(ResizeOp.reference(places, **attributes), np.repeat(places, count)))
