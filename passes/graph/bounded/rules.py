"""Rules that make each op correct for every size: padding behind the data is undefined and must not affect the data.

Elementwise ops need no change. Ops that combine elements along a varying dimension need padding filled with their
neutral element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell.constant import ConstantOp, ParameterOp
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, BinaryOp, CastOp, ComparisonOp, LogicalOp, MulOp, SelectOp, UnaryOp
from ....dialects.stepwell.recurrent import LstmOp
from ....dialects.types import TensorSpec
from ..values import constant, dtype_of, static_shape
from .checks import require_same
from .extents import Extent, count_of, is_dynamic, prefix, size_of, symbolic, whole
from .layout import agree, is_apart, set_operands
from .rewriter import PADDING, Rewriter, replace
from .snapshot import BoundedError, OpState, VaryingConstant

Result = Sequence[Sequence[Extent]]
States = Sequence[OpState]


@PADDING.attach(UnaryOp, BinaryOp, LogicalOp, ComparisonOp, SelectOp, CastOp)
def elementwise(graph: Rewriter, op: Op, states: States) -> Result | None:
    """Takes each dimension from the operands that have it; splits merged dimensions again."""
    require_same(states)
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
def parameter(graph: Rewriter, op: ParameterOp, states: States) -> Result:
    """Weights have the same size in all samples."""
    require_same(states)
    return [graph.of(op.result)]


@PADDING.attach(ConstantOp)
def literal(graph: Rewriter, op: ConstantOp, states: States) -> Result | None:
    """A constant that the model computes from sizes: run-time values, or a prefix of the constant at the bounds."""
    arrays = [np.asarray(state.attributes["value"]) for state in states]
    first = arrays[0]
    if all(array.shape == first.shape for array in arrays[1:]):
        if all(np.array_equal(array, first, equal_nan=first.dtype.kind == "f") for array in arrays[1:]):
            return [graph.of(op.result)]
        replace(op, _looked_up(graph, arrays))
        return None
    found = []
    for axis, size in enumerate(first.shape):
        count = graph.fitter.fit([array.shape[axis] for array in arrays])
        if count is None:
            raise VaryingConstant("a constant's shape depends on the sizes in no simple way")
        found.append(prefix(count, size))
    if all(np.array_equal(*_common(first, array), equal_nan=first.dtype.kind == "f") for array in arrays[1:]):
        return [found]
    replace(op, _counted(graph, arrays, found))
    return None


def _common(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The common part of two arrays; a sample size may exceed the maximum of a bucket."""
    inside = tuple(slice(min(sizes)) for sizes in zip(first.shape, second.shape, strict=True))
    return first[inside], second[inside]


def _counted(graph: Rewriter, arrays: Sequence[np.ndarray], extents: Sequence[Extent]) -> ir.Value:
    """An arithmetic progression along each dimension, whose start and steps depend on sizes."""
    first = arrays[0]
    if first.dtype != np.int64 or not all(array.size and _is_even(array) for array in arrays):
        raise VaryingConstant("the contents of a constant depend on the sizes in no simple way")
    value = graph.numbers(np.array(graph.fit([int(array.flat[0]) for array in arrays], "a number"), object))
    for axis, size in enumerate(first.shape):
        step = graph.fitter.fit([_step(array, axis) for array in arrays]) if size > 1 else 0
        if step is None:
            raise VaryingConstant("the contents of a constant depend on the sizes in no simple way")
        places = constant(np.arange(size).reshape(-1, *[1] * (first.ndim - axis - 1)))
        factor = constant(np.array(step)) if isinstance(step, int) else graph.number(step, first.dtype)
        value = graph.noted(AddOp(value, graph.noted(MulOp(places, factor))))
    graph.extents[value] = list(extents)
    return value


def _step(array: np.ndarray, axis: int) -> int | None:
    """The difference between the first two elements along a dimension; None if there is only one."""
    return int(np.take(array, 1, axis).flat[0] - array.flat[0]) if array.shape[axis] > 1 else None


def _is_even(array: np.ndarray) -> bool:
    steps = [_step(array, axis) or 0 for axis in range(array.ndim)]
    grid = np.indices(array.shape).reshape(array.ndim, -1)
    return bool(np.array_equal(array.flat[0] + np.array(steps, np.int64) @ grid, array.reshape(-1)))


def _looked_up(graph: Rewriter, arrays: Sequence[np.ndarray]) -> ir.Value:
    first = arrays[0]
    entries = np.empty(first.shape, object)
    for place in np.ndindex(first.shape):
        values = [array[place].item() for array in arrays]
        if any(not float(value).is_integer() for value in values):
            raise BoundedError("a number that is not an integer depends on the sizes")
        entries[place] = graph.fit([int(value) for value in values], "a number")
    value = graph.numbers(entries)
    return value if first.dtype == np.int64 else graph.noted(CastOp(value, dtype=first.dtype))


@PADDING.attach(MatmulOp)
def matmul(graph: Rewriter, op: MatmulOp, states: States) -> Result | None:
    """Sets both operands to 0 beyond the data along the contracted dimension, because 0 times padding may be NaN.

    Merged rows with padding in between are split again:

        matmul(reshape(x): [batch * length, k], w) --> reshape(matmul(x: [batch, length, k], w))
    """
    require_same(states)
    places = [-2 if op.transpose_lhs else -1, -1 if op.transpose_rhs else -2]
    ranks = [len(graph.of(value)) for value in op.operation.operands]
    both = [place % rank for place, rank in zip(places, ranks, strict=True)]
    set_operands(op, agree(graph, list(op.operation.operands), both))
    summed = graph.of(op.lhs)[both[0]]
    if is_dynamic(summed):
        op.operation.attributes["depth"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), graph.end_of(summed))
    for position, place in enumerate(both):
        value = op.operation.operands[position]
        op.operation.operands[position] = graph.keep(value, [place], 0.0)
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


def inferred(graph: Rewriter, op: Op, states: States) -> Result:
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


@PADDING.attach(LstmOp)
def lstm(graph: Rewriter, op: LstmOp, states: States) -> Result:
    """Unchanged if only the batch varies."""
    require_same(states)
    for value in op.operation.operands:
        for axis in graph.dynamic(value):
            if not _is_batch(graph, op, value, axis):
                raise BoundedError("the number of steps of a recurrence varies")
    return inferred(graph, op, states)


def _is_batch(graph: Rewriter, op: LstmOp, value: ir.Value, axis: int) -> bool:
    first = op.operation.operands[0]
    return axis == 1 and graph.of(value)[axis] == graph.of(first)[1]
