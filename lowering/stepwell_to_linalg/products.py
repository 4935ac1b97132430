"""Matrix products as one linalg.generic per column group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import tensor

from ...dialects import discardable
from ...dialects.interfaces import Interface
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.packed import PackedConvOp, PackedMatmulOp
from ...dialects.stepwell.panels import BY_COLUMNS, PACKED, ColumnGroup, column_groups, grain_of
from ...dialects.types import numpy_dtype
from ...passes.ir.values import Shape, shape_of
from ...passes.kernel.demand import kernel_of, varying_rows
from ..builders.generics import generic, multiply_add
from ..builders.spaces import ResultSpace, expand, slice_axis

# Panel width in columns of unpacked right-hand sides, which are read in place: whole registers on every target.
_UNPACKED_PANEL = 32


@dataclass(frozen=True)
class Product:
    """A contraction that is ready to be emitted.

    Attributes:
        space: index space of its result.
        groups: column groups, each emitted separately.
        emit: makes the generic of a group that accumulates into the given tensor.
    """

    space: ResultSpace
    groups: Sequence[ColumnGroup]
    emit: Callable[[ColumnGroup, ir.Value], ir.OpView]


PRODUCT = Interface[Callable[[Any, Sequence[Shape]], Product]](
    "product", "loops and column groups of a contraction", rooms=("lowering.stepwell_to_linalg",)
)


def emit_contraction(
    lhs: ir.Value, lhs_map: Sequence, rhs: ir.Value, rhs_map: Sequence, out: ir.Value, reductions: int
) -> ir.OpView:
    """Makes a generic that adds `lhs * rhs` to `out`; the dimensions after those of `out` are reduced."""
    rank = len(shape_of(out))
    total = rank + reductions
    dims = [ir.AffineExpr.get_dim(position) for position in range(rank)]
    maps = [ir.AffineMap.get(total, 0, list(exprs)) for exprs in (lhs_map, rhs_map, dims)]
    return generic([lhs, rhs], out, maps, rank, multiply_add)


def emit_grains(
    lhs: ir.Value, lhs_map: Sequence, rhs: ir.Value, rhs_map: Sequence, out: ir.Value, reductions: int, size: int
) -> ir.OpView:
    """Like `emit_contraction`, for tensors from `in_grains` and `panels_of`; the maps are those for grains of 1.

    For grains of a larger `size`, the last dimension is a grain, and the attribute `stepwell.grain` holds its size.
    """
    if size == 1:
        return emit_contraction(lhs, lhs_map, rhs, rhs_map, out, reductions)
    inner = ir.AffineExpr.get_dim(len(shape_of(out)) + reductions)
    lanes = rhs_map[-1] * size + inner
    op = emit_contraction(lhs, [*lhs_map, inner], rhs, [*rhs_map[:-1], lanes], out, reductions + 1)
    discardable.GRAIN.write(op, size)
    return op


def grain(op: PackedMatmulOp | PackedConvOp) -> int:
    """Returns the number of neighbours along the reduction that are contiguous in the packed weight of an op."""
    return op.grain or grain_of(numpy_dtype(ir.RankedTensorType(op.weight.type).element_type))


def in_grains(value: ir.Value, size: int) -> ir.Value:
    """Returns a tensor with its last dimension split into grains of `size`."""
    shape = shape_of(value)
    return value if size == 1 else expand(value, len(shape) - 1, [shape[-1] // size, size])


def panels_of(weight: ir.Value, group: ColumnGroup, count: int, reduction: Shape, size: int = 1) -> ir.Value:
    """Returns the packed weights of a group as [feature group?, panel, *reduction, lane]; a lane holds a grain."""
    wide = group.width * size
    reduction = (*reduction[:-1], reduction[-1] // size)
    depth = math.prod(reduction) * size
    start = count * group.start * depth
    flat = slice_axis(weight, 0, start, count * group.size * depth)
    return expand(flat, 0, [*([count] if count > 1 else []), group.panels, *reduction, wide])


def packed_panels(op: PackedMatmulOp, group: ColumnGroup, batch: Sequence[int], depth: int) -> ir.Value:
    """Returns the panels of a group, [*batch, panel, depth, lane], packed from a weight in another order.

    Schedules find the op that packs them by its attribute `stepwell.packing`, and compute it panel by panel.
    """
    dims = range(len(batch) + 3)
    *outer, panel, step, lane = map(ir.AffineExpr.get_dim, dims)
    if op.stored == BY_COLUMNS:
        matrix = slice_axis(expand(op.weight, 0, [*batch, op.columns, depth]), len(batch), group.start, group.size)
        stored, order = expand(matrix, len(batch), [group.panels, group.width]), [*outer, panel, lane, step]
    else:
        axis = len(batch) + 1
        matrix = slice_axis(expand(op.weight, 0, [*batch, depth, op.columns]), axis, group.start, group.size)
        stored, order = expand(matrix, axis, [group.panels, group.width]), [*outer, step, panel, lane]
    element = ir.RankedTensorType(stored.type).element_type
    empty = tensor.EmptyOp([*batch, group.panels, depth, group.width], element).result
    maps = [ir.AffineMap.get(len(dims), 0, order), ir.AffineMap.get_identity(len(dims))]
    packing = generic([stored], empty, maps, len(dims), lambda value, _: value)
    discardable.PACKING.write(packing, group.start)
    return packing.results[0]


def groups_of(columns: int, op: PackedMatmulOp | PackedConvOp) -> Sequence[ColumnGroup]:
    """Returns the column groups of a packed weight; bytes in panels of one column form a single panel of many lanes."""
    return [ColumnGroup(0, 1, columns)] if has_lines(op) else column_groups(columns, op.panel)


def has_lines(op: PackedMatmulOp | PackedConvOp) -> bool:
    """Returns whether the columns of a weight are contiguous along the reduction, as tensor cores require for bytes."""
    return op.panel == 1 and grain(op) > 1


def lines_of(weight: ir.Value, columns: int, count: int, reduction: Shape) -> ir.Value:
    """Returns a packed weight with contiguous columns as [feature group?, panel, lane, *reduction]."""
    return expand(weight, 0, [*([count] if count > 1 else []), 1, columns, *reduction])


def aligned_outer(shapes: Sequence[Shape], rank: int) -> list[Shape]:
    """Returns shapes broadcastable to one of `rank`, right-aligned with it and without their last dimension."""
    return [((1,) * (rank - len(shape)) + shape)[:-1] for shape in shapes]


@PRODUCT.attach(PackedMatmulOp)
def packed_matmul(op: PackedMatmulOp, others: Sequence[Shape]) -> Product:
    """Returns a product with packed weights as a contraction.

    (outer.., panel, lane, k): input[outer.., k] * weight[batch.., panel, k, lane]; a batch is outermost.
    """
    result, depth, dim = shape_of(op.result), shape_of(op.input)[-1], ir.AffineExpr.get_dim
    matrices = (*result[:-2], 1) if op.batch > 1 else (1,) * (len(result) - 1)
    apart = varying_rows(kernel_of(op.operation), result)
    space = ResultSpace(result, [*aligned_outer(others, len(result)), matrices], separate=apart)
    lhs, outer = space.flatten(op.input, trailing=1)
    panel, lane, k = space.rank - 2, space.rank - 1, space.rank
    batch = [position for position, run in enumerate(space.runs) if op.batch > 1 and run[-1] < len(result) - 2]
    matrices_of = [math.prod(result[axis] for axis in space.runs[position]) for position in batch]

    def emit(group: ColumnGroup, out: ir.Value) -> ir.OpView:
        if has_lines(op):
            weight = lines_of(op.weight, op.columns, op.batch, (depth,))
            weight_map = [*map(dim, batch), dim(panel), dim(lane), dim(k)]
            return emit_contraction(lhs, [*map(dim, outer), dim(k)], weight, weight_map, out, 1)
        if op.stored == PACKED:
            weight = panels_of(op.weight, group, op.batch, (depth,), grain(op))
            weight = expand(weight, 0, matrices_of) if len(batch) > 1 else weight
        else:
            weight = packed_panels(op, group, matrices_of, depth)
        weight_map = [*map(dim, batch), dim(panel), dim(k), dim(lane)]
        grains = in_grains(lhs, grain(op))
        return emit_grains(grains, [*map(dim, outer), dim(k)], weight, weight_map, out, 1, grain(op))

    return Product(space, groups_of(op.columns, op), emit)


@PRODUCT.attach(MatmulOp)
def matmul(op: MatmulOp, others: Sequence[Shape]) -> Product:
    """Returns a matrix product as a contraction.

    (batch.., m, panel, lane, k): lhs[batch.., m, k] * rhs[batch.., k, panel, lane], either one transposed or not.
    """
    result, dim = shape_of(op.result), ir.AffineExpr.get_dim
    rows = len(result) - 2
    operands = [(1,) * (rows - len(shape) + 2) + shape for shape in (shape_of(op.lhs), shape_of(op.rhs))]
    spreads = [(*operands[0][:-2], result[rows]), (*operands[1][:-2], 1)]
    separate = varying_rows(kernel_of(op.operation), result) | ({rows} if op.transpose_lhs else set())
    space = ResultSpace(result, [*aligned_outer(others, len(result)), *spreads], separate=separate)
    k = dim(space.rank)
    if op.transpose_lhs:
        lhs, outer = space.flatten(op.lhs, trailing=2)
        lhs_map = [*map(dim, outer), k, dim(len(space.runs) - 1)]
    else:
        lhs, outer = space.flatten(op.lhs, trailing=1)
        lhs_map = [*map(dim, outer), k]
    rhs, batch = space.flatten(op.rhs, trailing=2)
    lanes = [dim(space.rank - 2), dim(space.rank - 1)]
    column_axis = len(batch) + (not op.transpose_rhs)
    rhs_map = [*map(dim, batch), *([*lanes, k] if op.transpose_rhs else [k, *lanes])]

    def emit(group: ColumnGroup, out: ir.Value) -> ir.OpView:
        return emit_contraction(lhs, lhs_map, space.split_columns(rhs, column_axis, group), rhs_map, out, 1)

    return Product(space, column_groups(space.columns, _UNPACKED_PANEL), emit)
