"""Packs weights in panels of columns, by ops of the dialect."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

from mlir import ir

from ....dialects.stepwell.movement import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from ....dialects.stepwell.panels import column_groups, grain_of
from ..values import dtype_of


def pack(weight: ir.Value, count: int, columns: int, depth: int, panel: int, grain: int = 0) -> ir.Value:
    """A weight [count * columns, *reduction] with `depth` reduction elements, packed flat by stepwell ops.

    `grain` neighbours along the reduction are adjacent; 0 means as many as the element type needs.
    """
    parts = _packed(weight, count, columns, depth, panel, grain)
    return _joined([ReshapeOp(part, shape=(count * size * depth,)).result for part, size in parts], 0)


def pack_each(weight: ir.Value, columns: int, depth: int, panel: int, grain: int = 0) -> ir.Value:
    """A stack of matrices [count, columns, depth], each of them packed flat: [count, columns * depth]."""
    count = ir.RankedTensorType(weight.type).shape[0]
    parts = _packed(weight, count, columns, depth, panel, grain)
    return _joined([ReshapeOp(part, shape=(count, size * depth)).result for part, size in parts], 1)


def pack_windows(weight: ir.Value, count: int, panel: int) -> ir.Value:
    """A weight [count * columns, channels, *kernel], packed flat for channels-last images in a single movement.

    The panels are whole.
    """
    outputs, *reduction = ir.RankedTensorType(weight.type).shape
    panels = outputs // count // panel
    split = ReshapeOp(weight, shape=(count * panels, panel, *reduction)).result
    moved = TransposeOp(split, permutation=(0, *range(3, 2 + len(reduction)), 2, 1)).result
    return ReshapeOp(moved, shape=(math.prod((outputs, *reduction)),)).result


def _packed(
    weight: ir.Value, count: int, columns: int, depth: int, panel: int, grain: int
) -> Iterator[tuple[ir.Value, int]]:
    """Yields the panels of each group of columns, which begin with the dimension `count`, and the number of columns."""
    whole, grain = ReshapeOp(weight, shape=(count, columns, depth)).result, grain or grain_of(dtype_of(weight))
    for group in column_groups(columns, panel):
        stops = (count, group.start + group.size, depth)
        part = SliceOp(whole, starts=(0, group.start, 0), stops=stops, steps=(1, 1, 1)).result
        grains = (depth,) if grain == 1 else (depth // grain, grain)
        panels = ReshapeOp(part, shape=(count, group.panels, group.width, *grains)).result
        yield TransposeOp(panels, permutation=(0, 1, 3, 2, 4)[: 3 + len(grains)]).result, group.size


def _joined(parts: Sequence[ir.Value], axis: int) -> ir.Value:
    return functools.reduce(lambda first, second: ConcatOp(first, second, axis=axis).result, parts)
