"""Products of groups of rows with a matrix of each group, as in mixtures of experts."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.dims import Dim
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.movement import ExpandDimsOp, ReshapeOp, RowOp, TransposeOp
from ....passes.graph.values import dimension
from ....sizes import algebra
from ...build import (
    cast,
    emit,
    gathered,
    integers,
    joined,
    known_dim,
    known_number,
    multiplied,
    numbered,
    part,
    rank,
    running,
    scalar,
    summed,
)
from ...errors import UnsupportedError
from ...loops import Stack, counted, tile_size
from ..node import AtenNode
from ..registry import imports


@imports("aten._grouped_mm.default")
def grouped_product(
    node: AtenNode, input: ir.Value, mat2: ir.Value, offs: ir.Value | None, bias: ir.Value | None, out_dtype: Any
) -> ir.Value:
    """The product of each group of rows with its matrix; without ends of groups, a product per batch."""
    if bias is not None:
        raise UnsupportedError("adds a bias to products of groups, which is not supported")
    if offs is None:
        made = multiplied(input, mat2)
    elif (rank(input), rank(mat2)) == (2, 3):
        made = product_of_groups(input, mat2, offs)
    else:
        raise UnsupportedError("has groups of columns or of the summed dimension, which are not supported")
    return made if out_dtype is None else cast(made, out_dtype)


@imports("transformers.grouped_mm_fallback.default")
def grouped_product_of_transformers(node: AtenNode, input: ir.Value, weight: ir.Value, offs: ir.Value) -> ir.Value:
    """The same, as an op that the package `transformers` registers; rows of no group get 0."""
    return product_of_groups(input, weight, offs)


def product_of_groups(rows: ir.Value, weights: ir.Value, ends: ir.Value) -> ir.Value:
    """Multiplies consecutive groups of rows, each with a matrix of its own.

    Groups are cut into tiles, and a loop over them takes the matrix of each tile, which copies nothing:

        for tile in tiles:
            results[tile] = rows[start[tile] : start[tile] + size] @ weights[group[tile]]

    Args:
        rows: the rows [rows, depth].
        weights: a matrix for each group [groups, depth, columns].
        ends: the row after the last one of each group, ascending [groups].

    Returns:
        The products [rows, columns]; those of rows after the last group are 0.
    """
    count, groups = known_dim(rows, 0, "the number of rows"), known_number(weights, 0, "the number of groups")
    weights, is_transposed = _as_stored(weights)
    columns = known_dim(weights, 1 if is_transposed else 2, "the number of columns")
    size = tile_size(count, groups)
    most: Dim = algebra.floor_div(count, size) + groups  # one tile per group may be full in part
    ends = cast(ends, np.int64)
    starts = joined([integers([0]), part(ends, 0, groups - 1)])
    counts = emit(ew.SubOp, ends, starts)
    tiles = emit(ew.DivOp, emit(ew.AddOp, counts, scalar(size - 1, counts)), scalar(size, counts))
    tiles = emit(ew.MaximumOp, tiles, scalar(0, tiles))
    tile_ends = running(tiles, 0)
    # Row of a tile's start, less `size` times its number: the same for all tiles of a group.
    bases = emit(ew.SubOp, starts, emit(ew.MulOp, emit(ew.SubOp, tile_ends, tiles), scalar(size, tiles)))

    def body(number: ir.Value, _: object) -> tuple[list[ir.Value], list[Stack]]:
        group = summed(cast(emit(ew.LessEqualOp, tile_ends, number), np.int64), 0)
        first = emit(ew.AddOp, emit(RowOp, bases, group), emit(ew.MulOp, number, scalar(size, number)))
        tile = gathered(rows, _clipped(emit(ew.AddOp, numbered(size), first), count), 0)
        made = emit(MatmulOp, tile, emit(RowOp, weights, group), transpose_rhs=is_transposed)
        return [], [Stack([(number, made)], length=dimension(most))]

    _, (results,) = counted(_clipped(summed(tiles, 0), most + 1), [], body)
    line = numbered(count)
    is_after = emit(ew.LessEqualOp, emit(ExpandDimsOp, ends, axes=(0,)), emit(ExpandDimsOp, line, axes=(1,)))
    group = summed(cast(is_after, np.int64), 1)
    base = gathered(bases, _clipped(group, groups), 0)
    places = _clipped(emit(ew.SubOp, line, base), most * size)
    made = gathered(emit(ReshapeOp, results, shape=(most * size, columns)), places, 0)
    is_in = emit(ExpandDimsOp, emit(ew.LessOp, group, scalar(groups, group)), axes=(1,))
    return emit(ew.SelectOp, is_in, made, scalar(0, made))


def _as_stored(weights: ir.Value) -> tuple[ir.Value, bool]:
    """Returns the matrices as they are stored, and whether the given ones are their transposes.

    A loop reads the stored ones; otherwise, all matrices would be transposed first, those of unused groups too.
    """
    owner = weights.owner
    if isinstance(owner, ir.Block) or owner.name != TransposeOp.OPERATION_NAME:
        return weights, False
    permutation = list(ir.DenseI64ArrayAttr(owner.attributes["permutation"]))
    return (owner.operands[0], True) if permutation == [0, 2, 1] else (weights, False)


def _clipped(value: ir.Value, stop: Dim) -> ir.Value:
    """Returns integers in the range from 0 to before `stop`, whatever a model computes."""
    last = emit(ew.SubOp, dimension(stop), scalar(1, dimension(stop)))
    return emit(ew.MaximumOp, emit(ew.MinimumOp, value, last), scalar(0, value))
