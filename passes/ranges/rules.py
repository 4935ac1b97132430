"""Rules that make each op correct for every size: padding behind the data is undefined and must not affect the data.

Elementwise ops need no change. Ops that combine elements along a varying dimension need padding filled with their
neutral element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects.core import Op
from ...dialects.dims import array
from ...dialects.stepwell.blocks import BlockMatmulOp
from ...dialects.stepwell.constant import ConstantOp, ParameterOp
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.elementwise import (
    AddOp,
    BinaryOp,
    CastOp,
    ComparisonOp,
    DivOp,
    LogicalOp,
    MulOp,
    SelectOp,
    ShiftOp,
    UnaryOp,
)
from ...dialects.stepwell.recurrent import LstmOp
from ...dialects.stepwell.shape import RangeOp, SizesOp
from ...dialects.types import TensorSpec
from ..graph.values import constant, dtype_of, static_shape
from ..ir.values import shape_of
from .checks import require_static_attributes
from .errors import RangesError
from .extents import Extent, count_of, is_dynamic, numbered, prefix, size_of, symbolic, whole
from .layout import agree, compacted, is_apart, set_operands
from .rewriter import PADDING, Rewriter, replace
from .states import OpState

ResultExtents = Sequence[Sequence[Extent]]


@PADDING.attach(UnaryOp, BinaryOp, ShiftOp, LogicalOp, ComparisonOp, SelectOp, CastOp)
def elementwise(graph: Rewriter, op: Op, state: OpState) -> ResultExtents | None:
    """Takes each dimension from the operands that have it; splits merged dimensions again."""
    require_static_attributes(state)
    shape = static_shape(op.operation.results[0]) or ()
    for axis in range(len(shape)):
        values = list(op.operation.operands)
        ranks = [len(graph.of(value)) for value in values]
        places = [axis - len(shape) + rank if rank >= len(shape) - axis else None for rank in ranks]
        set_operands(op, agree(graph, values, places))
    found = [whole(size) for size in shape]
    for value in op.operation.operands:
        extents = graph.of(value)
        for axis, extent in enumerate(extents, len(shape) - len(extents)):
            if size_of(extent) == shape[axis] and is_dynamic(extent):
                found[axis] = extent
    if not any(map(is_apart, found)):
        return [found]
    operands = [_separated(graph, value, found) for value in op.operation.operands]
    made = graph.noted(type(op)(*operands, **op.attribute_values()), _separate(found))
    replace(op, graph.reshaped_to(made, found))
    return None


def _separate(extents: Sequence[Extent]) -> list[Extent]:
    """The dimensions, with those of separate parts split into their factors, so that loops can stop at their ends."""
    return [part for extent in extents for part in ([(factor,) for factor in extent] if is_apart(extent) else [extent])]


def _separated(graph: Rewriter, value: ir.Value, wanted: Sequence[Extent]) -> ir.Value:
    """An operand that broadcasts to the dimensions `wanted`, reshaped for the same op on split dimensions."""
    parts: list[Extent] = []
    extents = graph.of(value)
    for extent, other in zip(extents, wanted[len(wanted) - len(extents) :], strict=True):
        is_single = is_apart(other) and size_of(extent) == 1
        parts += [whole(1)] * len(other) if is_single else _separate([extent])
    return graph.reshaped_to(value, parts)


@PADDING.attach(ParameterOp)
def parameter(graph: Rewriter, op: ParameterOp, state: OpState) -> ResultExtents:
    """Weights have the same size in all calls."""
    require_static_attributes(state)
    return [graph.of(op.result)]


@PADDING.attach(ConstantOp)
def literal(graph: Rewriter, op: ConstantOp, state: OpState) -> ResultExtents:
    """Constants have the same size in all calls."""
    return [graph.of(op.result)]


@PADDING.attach(SizesOp)
def sizes(graph: Rewriter, op: SizesOp, state: OpState) -> None:
    """Numbers that are read from the table, divided by the divisor."""
    value = graph.numbers(array(state.attributes["values"], op.shape))
    made = value if op.dtype == np.int64 else graph.noted(CastOp(value, dtype=op.dtype))
    is_ratio = op.divisor > 1
    replace(op, graph.noted(DivOp(made, constant(np.array(op.divisor, op.dtype)))) if is_ratio else made)


@PADDING.attach(RangeOp)
def range_(graph: Rewriter, op: RangeOp, state: OpState) -> None:
    """A progression up to the upper bound, which depends on sizes only if its start or step does."""
    (size,) = shape_of(op.result)
    dtype = dtype_of(op.result)
    value = constant(numbered(size).astype(dtype))
    value = graph.noted(AddOp(graph.noted(MulOp(value, op.delta)), op.start))
    graph.extents[value] = [prefix(state.shapes[0][0], size)]
    replace(op, value)


@PADDING.attach(MatmulOp)
def matmul(graph: Rewriter, op: MatmulOp, state: OpState) -> ResultExtents | None:
    """Sets both operands to 0 beyond the data along the contracted dimension, because 0 times padding may be NaN.

    Merged rows with padding in between are split again:

        matmul(reshape(x): [batch * length, k], w) --> reshape(matmul(x: [batch, length, k], w))
    """
    require_static_attributes(state)
    contracted = [-2 if op.transpose_lhs else -1, -1 if op.transpose_rhs else -2]
    ranks = [len(graph.of(value)) for value in op.operation.operands]
    both = [axis % rank for axis, rank in zip(contracted, ranks, strict=True)]
    set_operands(op, agree(graph, list(op.operation.operands), both))
    summed = graph.of(op.lhs)[both[0]]
    if is_dynamic(summed):
        op.operation.attributes["depth"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), graph.end_of(summed))
    for position, axis in enumerate(both):
        value = op.operation.operands[position]
        op.operation.operands[position] = graph.masked(value, [axis], 0.0)
    lhs, rhs = graph.of(op.lhs), graph.of(op.rhs)
    rows, columns = lhs[-1 if op.transpose_lhs else -2], rhs[-2 if op.transpose_rhs else -1]
    shape = static_shape(op.result) or ()
    batch = [whole(size) for size in shape[:-2]]
    for extents in (lhs[:-2], rhs[:-2]):
        for axis, extent in enumerate(extents, len(batch) - len(extents)):
            if is_dynamic(extent):
                batch[axis] = extent
    found = [*batch, rows, columns]
    if not is_apart(rows) or op.transpose_lhs or len(rhs) > 2:
        return [found]
    separate = [*batch, *((factor,) for factor in rows), columns]
    left = graph.reshaped_to(op.lhs, [*separate[:-1], lhs[-1]])
    made = graph.noted(MatmulOp(left, op.rhs, **op.attribute_values()), separate)
    replace(op, graph.reshaped_to(made, found))
    return None


def inferred(graph: Rewriter, op: Op, state: OpState) -> ResultExtents:
    """The dimensions from the op's shape function, as prefixes unless they equal a dimension of the first operand."""

    def spec(value: ir.Value) -> TensorSpec:
        return TensorSpec(symbolic(graph.of(value)), dtype_of(value))

    specs = op.infer_specs(spec)
    known = {count_of(extent): extent for extent in graph.of(op.operation.operands[0])}
    return [
        [
            known[dim] if dim in known and size_of(known[dim]) == size else prefix(dim, size)
            for dim, size in zip(item.shape, static_shape(value) or (), strict=True)
        ]
        for item, value in zip(specs, op.operation.results, strict=True)
    ]


@PADDING.attach(BlockMatmulOp)
def block_matmul(graph: Rewriter, op: BlockMatmulOp, state: OpState) -> ResultExtents:
    """Sets the input and the scales to 0 beyond the data along the contracted dimension; the weight's are finite."""
    require_static_attributes(state)
    if 2 in graph.dynamic(op.weight):
        raise RangesError("the size of the blocks of a weight varies")
    depth = len(graph.of(op.input)) - 1
    input, *weights = op.operation.operands
    set_operands(op, [compacted(graph, input, [depth]), *(compacted(graph, value, (0, 1)) for value in weights)])
    op.operation.operands[0] = graph.masked(op.input, [depth], 0.0)
    op.operation.operands[2] = graph.masked(op.scales, [1], 0.0)
    return [[*graph.of(op.input)[:-1], graph.of(op.weight)[0]]]


@PADDING.attach(LstmOp)
def lstm(graph: Rewriter, op: LstmOp, state: OpState) -> ResultExtents:
    """Unchanged if only the batch varies."""
    require_static_attributes(state)
    for value in op.operation.operands:
        for axis in graph.dynamic(value):
            if not _is_batch(graph, op, value, axis):
                raise RangesError("the number of steps of a recurrence varies")
    return inferred(graph, op, state)


def _is_batch(graph: Rewriter, op: LstmOp, value: ir.Value, axis: int) -> bool:
    first = op.operation.operands[0]
    return axis == 1 and graph.of(value)[axis] == graph.of(first)[1]
