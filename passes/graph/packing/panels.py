"""Packs weights in panels of columns, by ops of the dialect."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.movement import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from ....dialects.stepwell.packed import column_groups, grain_of
from ..values import dtype_of


def pack(weight: ir.Value, count: int, columns: int, depth: int, panel: int, grain: int = 0) -> ir.Value:
    """A weight [count * columns, *reduction] with `depth` reduction elements, packed flat by stepwell ops.

    `grain` neighbours along the reduction are adjacent; 0 means as many as the element type needs.
    """
    whole, grain = ReshapeOp(weight, shape=(count, columns, depth)).result, grain or grain_of(dtype_of(weight))
    packed: ir.Value | None = None
    for group in column_groups(columns, panel):
        stops = (count, group.start + group.size, depth)
        part = SliceOp(whole, starts=(0, group.start, 0), stops=stops, steps=(1, 1, 1)).result
        grains = (depth,) if grain == 1 else (depth // grain, grain)
        panels = ReshapeOp(part, shape=(count, group.panels, group.width, *grains)).result
        ordered = TransposeOp(panels, permutation=(0, 1, 3, 2, 4)[: 3 + len(grains)]).result
        flat = ReshapeOp(ordered, shape=(count * group.size * depth,)).result
        packed = flat if packed is None else ConcatOp(packed, flat, axis=0).result
    assert packed is not None
    return packed
