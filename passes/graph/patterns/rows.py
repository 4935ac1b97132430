"""Replaces rows at constant indices by slices."""

from __future__ import annotations

from ....dialects.stepwell.movement import ReshapeOp, RowOp, SliceOp
from ...ir.rewriting import Pattern, Replacement
from ..values import splat_of, static_shape


class RowOfConstantIndex(Pattern[RowOp]):
    """row(x, constant) --> reshape(slice(x))"""

    root = RowOp

    def rewrite(self, op: RowOp) -> Replacement:
        shape, index = static_shape(op.input), splat_of(op.index)
        if shape is None or index is None:
            return None
        first = min(max(int(index), 0), shape[0] - 1)
        starts, stops = (first, *[0] * (len(shape) - 1)), (first + 1, *shape[1:])
        part = SliceOp(op.input, starts=starts, stops=stops, steps=(1,) * len(shape)).result
        return ReshapeOp(part, shape=shape[1:]).result


PATTERNS = (RowOfConstantIndex(),)
