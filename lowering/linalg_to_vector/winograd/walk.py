"""Shared code of the transforms: loops over the tiles of a block and along channels, reads and writes of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith, vector

from ....dialects.types import array_of
from ...builders.indices import Index, loop, value_of
from ..tile_reads import Chunk, chunks_of
from .linear_maps import LinearMap

Matrices = tuple[np.ndarray, np.ndarray]
"""The matrices that a transform multiplies by: along rows, and along columns."""


def matrices_of(op: ir.Operation) -> Matrices:
    """Returns the matrices of a transform."""
    down, across = (array_of(op.operands[place].owner.attributes["value"]) for place in (1, 2))
    return down, across


def apply_both(matrices: Matrices, values: Sequence[Sequence[ir.Value]]) -> list[tuple[tuple[int, int], ir.Value]]:
    """Returns the elements of `first matrix @ values @ second matrix.T`, each with its indices."""
    down, across = map(LinearMap, matrices)
    columns = [down.apply([row[place] for row in values]) for place in range(len(values[0]))]
    found = []
    for place in range(len(matrices[0])):
        results = across.apply([column[place] for column in columns])
        found += [((place, other), value) for other, value in enumerate(results)]
    return found


def grid(rows: int, cols: int, target: ir.Value, tile: Callable[[Index, Index, ir.Value], ir.Value]) -> ir.Value:
    """Emits loops over all tiles of a block."""
    (result,) = loop(
        0,
        rows,
        1,
        [target],
        lambda row, outer: loop(0, cols, 1, outer, lambda col, inner: [tile(row, col, inner[0])]),
    )
    return result


def along(size: int, lanes: int, target: ir.Value, step: Callable[[Index, Chunk, ir.Value], ir.Value]) -> ir.Value:
    """Emits a loop over `size` channels in whole vectors, and a masked vector for the rest."""
    whole = size - size % lanes
    (target,) = loop(
        0, whole, lanes, [target], lambda index, inner: [step(index, Chunk(0, lanes, lanes, lanes), inner[0])]
    )
    for chunk in chunks_of(size - whole, lanes):
        target = step(whole + chunk.start, chunk, target)
    return target


def read_row(source: ir.Value, indices: Sequence[Index], chunk: Chunk) -> ir.Value:
    """Reads the vector from `indices` on, along the last dimension."""
    element = ir.RankedTensorType(source.type).element_type
    padding = arith.constant(element, 0.0)
    places = [value_of(index) for index in indices]
    return vector.TransferReadOp(
        chunk.type(element), source, places, _last_dimension(len(places)), padding, [True], mask=chunk.mask()
    ).result


def write_row(value: ir.Value, target: ir.Value, indices: Sequence[Index], chunk: Chunk) -> ir.Value:
    """Returns `target` with the vector written from `indices` on, along the last dimension."""
    places = [value_of(index) for index in indices]
    return vector.TransferWriteOp(
        target.type, value, target, places, _last_dimension(len(places)), [True], mask=chunk.mask()
    ).results[0]


def _last_dimension(rank: int) -> ir.AffineMapAttr:
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)]))
