"""Elements in another order along dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicSliceOp, ExpandDimsOp, ReverseOp
from ...build import emit, integers, joined, line_of, reshaped
from ...index_arithmetic import extent
from ..node import AtenNode, axes_of, axis_of
from ..registry import imports
from ..symbols import AtenSize, scalar_size

_END = np.iinfo(np.int64).max
_MOST_NESTED = 3
"""The most axes along which parts are moved before they are joined: the number of parts doubles with each."""


@imports("aten.flip.default")
def flip(node: AtenNode, input: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Elements in reverse order along dimensions."""
    axes = axes_of(input, dims) if dims else ()
    return emit(ReverseOp, input, axes=axes) if axes else input


@imports("aten.roll.default")
def roll(node: AtenNode, input: ir.Value, shifts: Sequence[AtenSize], dims: Sequence[int]) -> ir.Value:
    """Elements moved along dimensions; those beyond the end come to the start. Without dimensions the flat tensor."""
    value = input if dims else line_of(input)
    moves = [(shift, axis_of(value, axis)) for shift, axis in zip(shifts, dims or (0,), strict=True)]
    if len({axis for _, axis in moves}) == len(moves) <= _MOST_NESTED:
        return reshaped(_rolled(value, moves), node.shape())
    for move in moves:
        value = _rolled(value, [move])
    return reshaped(value, node.shape())


def _rolled(value: ir.Value, moves: Sequence[tuple[AtenSize, int]]) -> ir.Value:
    """Moves along different axes: parts are moved along the later ones before they are joined, so each is copied once.

    [a b; c d] --> [[d c]; [b a]]
    """
    if not moves:
        return value
    (shift, axis), *others = moves
    count = extent(value, axis)
    cut = emit(ew.SubOp, count, emit(ew.ModOp, scalar_size(shift), count))
    bound, along = emit(ExpandDimsOp, cut, axes=(0,)), integers([axis])
    tail = emit(DynamicSliceOp, value, bound, integers([_END]), along)
    head = emit(DynamicSliceOp, value, integers([0]), bound, along)
    return joined([_rolled(tail, others), _rolled(head, others)], axis)
