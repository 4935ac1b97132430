"""Ops that keep some elements, whose number depends on data."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp, ScatterOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ....dialects.stepwell.selecting import CompressOp, NonZeroOp
from ....dialects.stepwell.shape import FillOp
from ...build import cast, constant, emit, joined, line_of, rank, running, scalar, shape, shape_of, transposed
from ...index_arithmetic import merged, numbers
from ..node import AtenNode
from ..registry import imports
from ..symbols import extents


@imports("aten.nonzero.default")
def nonzero(node: AtenNode, input: ir.Value) -> ir.Value:
    """The coordinates of the elements that are not 0, a row for each."""
    if 0 in shape(input):
        return constant(np.zeros((0, rank(input)), np.int64))
    mask = cast(input, np.bool_)
    made = transposed(emit(NonZeroOp, mask), (1, 0))
    node.importer.counts.add(made, 0, _count(mask))
    return made


@imports("aten.nonzero_static.default")
def first_nonzero(node: AtenNode, input: ir.Value, size: int, fill_value: int) -> ir.Value:
    """The coordinates of the first elements that are not 0, and rows of a number if there are fewer."""
    empty = emit(FillOp, node.shape(), value=np.array(fill_value, np.int64))
    if 0 in shape(input) or 0 in shape(empty):
        return empty
    mask = line_of(cast(input, np.bool_))
    row = running(cast(mask, np.int64), 0, exclusive=True)
    row = emit(ew.SelectOp, mask, row, scalar(size, row))  # no row of the result
    sizes = emit(DynamicBroadcastToOp, scalar(0, row), shape_of(input))
    parts = [
        emit(ExpandDimsOp, line_of(emit(ew.AddOp, numbers(input, axis), sizes)), axes=(1,))
        for axis in range(rank(input))
    ]
    return emit(ScatterOp, empty, row, joined(parts, 1), axis=0)


@imports("aten.masked_select.default")
def masked_select(node: AtenNode, input: ir.Value, mask: ir.Value) -> ir.Value:
    """The elements at which a mask is true, in row-major order; both broadcast."""
    sizes = torch.broadcast_shapes(node.argument("self").shape, node.argument("mask").shape)
    target = extents(node.symbols.sizes(sizes))
    line, kept = (line_of(emit(DynamicBroadcastToOp, value, target)) for value in (input, mask))
    return selected_by_mask(node, line, kept, 0)


def selected_by_mask(node: AtenNode, input: ir.Value, mask: ir.Value, axis: int) -> ir.Value:
    """Returns the slices at which a mask over some dimensions, from `axis` on, is true.

    [a, m..., b] --> [m..., a, b] --> [k, a, b] --> [a, k, b]
    """
    inner: Sequence[int] = range(axis, axis + rank(mask))
    rest = [other for other in range(rank(input)) if other not in inner]
    rows = merged(transposed(input, [*inner, *rest]), rank(mask))
    if shape(rows)[0] == 0:
        return transposed(rows, _back(axis, len(rest)))
    made = transposed(emit(CompressOp, rows, line_of(mask), axis=0), _back(axis, len(rest)))
    node.importer.counts.add(made, axis, _count(mask))
    return made


def _back(axis: int, rest: int) -> list[int]:
    """The order of dimensions that moves the first one behind `axis` others."""
    return [*range(1, axis + 1), 0, *range(axis + 1, rest + 1)]


def _count(mask: ir.Value) -> ir.Value:
    whole = cast(mask, np.int64)
    return emit(ReduceSumOp, whole, axes=tuple(range(rank(mask))), keepdims=False) if rank(mask) else whole
