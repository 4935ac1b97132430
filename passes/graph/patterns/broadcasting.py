"""Broadcasts absorbed by elementwise ops, which broadcast implicitly."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import BinaryOp
from ....dialects.stepwell.movement import BroadcastToOp
from ...ir.rewriting import Pattern, Replacement, defining_op
from ..values import scalar_like, splat_of, static_shape


class AbsorbBroadcast(Pattern):
    """op(broadcast_to(x), y) --> op(x, y), if x and y implicitly broadcast to the same shape"""

    root = BinaryOp

    def rewrite(self, op: BinaryOp) -> Replacement:
        lhs, rhs = defining_op(op.lhs, BroadcastToOp), defining_op(op.rhs, BroadcastToOp)
        if lhs is None and rhs is None:
            return None
        target = static_shape(op.result)
        for left, right in _candidates(op, lhs, rhs):
            shapes = static_shape(left), static_shape(right)
            if None not in shapes and _broadcasts_to(shapes, target):
                return type(op)(left, right).result
        return None


def _candidates(op: BinaryOp, lhs: BroadcastToOp | None, rhs: BroadcastToOp | None) -> list[tuple[ir.Value, ir.Value]]:
    left = op.lhs if lhs is None else lhs.input
    right = op.rhs if rhs is None else rhs.input
    return [(left, right)] if lhs is None or rhs is None else [(left, right), (left, op.rhs), (op.lhs, right)]


def _broadcasts_to(shapes: tuple, target: tuple[int, ...] | None) -> bool:
    return np.broadcast_shapes(*shapes) == target


class SplatToScalar(Pattern[BinaryOp]):
    """op(x, splat) --> op(x, scalar), if x has the result's shape"""

    root = BinaryOp

    def rewrite(self, op: BinaryOp) -> Replacement:
        number = splat_of(op.rhs)
        if (
            number is None
            or static_shape(op.rhs) == ()
            or static_shape(op.lhs) != static_shape(op.result)
            or static_shape(op.lhs) is None
        ):
            return None
        return type(op)(op.lhs, scalar_like(number, op.rhs)).result


PATTERNS: tuple[Pattern, ...] = (SplatToScalar(), AbsorbBroadcast())
