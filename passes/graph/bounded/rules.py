"""What each op needs to be right for every size: its elements beyond the data are garbage, and must not matter.

Elementwise ops need nothing. What looks at several elements along a dimension that varies sees the neutral element
where there is no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell.constant import ConstantOp, ParameterOp
from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ....dialects.stepwell.elementwise import CastOp
from ....dialects.stepwell.pooling import AveragePoolOp, MaxPoolOp
from ....dialects.stepwell.recurrent import LstmOp
from ....dialects.stepwell.windows import CHANNELS_FIRST
from ....dialects.types import TensorSpec
from ..values import dtype_of, shape_of
from .extents import Extent, count_of, is_dynamic, size_of, whole
from .rewriter import Rewriter, Rule, least_of, prefix, replace, require_same, require_static, symbolic
from .snapshot import BoundedError, OpState

Result = Sequence[Sequence[Extent]]
States = Sequence[OpState]


def elementwise(graph: Rewriter, op: Op, states: States) -> Result:
    """Each dimension is that of the operands that have it."""
    require_same(states)
    shape = shape_of(op.operation.results[0]) or ()
    found = [whole(size) for size in shape]
    for value in op.operation.operands:
        extents = graph.of(value)
        for axis, extent in enumerate(extents, len(shape) - len(extents)):
            if size_of(extent) == shape[axis] and is_dynamic(extent):
                found[axis] = extent
    return [found]


def parameter(graph: Rewriter, op: ParameterOp, states: States) -> Result:
    """Weights are the same at all sizes."""
    require_same(states)
    return [graph.of(op.result)]


def literal(graph: Rewriter, op: ConstantOp, states: States) -> Result | None:
    """What a model computes from sizes: numbers that are looked up, or a prefix of what it is at the bounds."""
    arrays = [np.asarray(state.attributes["value"]) for state in states]
    first = arrays[0]
    if all(array.shape == first.shape for array in arrays[1:]):
        if all(np.array_equal(array, first, equal_nan=first.dtype.kind == "f") for array in arrays[1:]):
            return [graph.of(op.result)]
        replace(op, _looked_up(graph, arrays))
        return None
    found = []
    for axis in range(first.ndim):
        found.append(
            prefix(graph.fit([array.shape[axis] for array in arrays], "a constant's shape"), first.shape[axis])
        )
    for array in arrays[1:]:
        inside = tuple(slice(size) for size in array.shape)
        if not np.array_equal(array, first[inside], equal_nan=first.dtype.kind == "f"):
            raise BoundedError("a constant depends on the sizes, in its contents too")
    return [found]


def _looked_up(graph: Rewriter, arrays: Sequence[np.ndarray]) -> ir.Value:
    first = arrays[0]
    entries = np.empty(first.shape, object)
    for place in np.ndindex(first.shape):
        values = [array[place].item() for array in arrays]
        if any(not float(value).is_integer() for value in values):
            raise BoundedError("a number that is no integer depends on the sizes")
        entries[place] = graph.fit([int(value) for value in values], "a number")
    value = graph.numbers(entries)
    return value if first.dtype == np.int64 else graph.noted(CastOp(value, dtype=first.dtype))


def matmul(graph: Rewriter, op: MatmulOp, states: States) -> Result:
    """What is summed up over is 0 on both sides where there is no data, as 0 times garbage may be NaN."""
    require_same(states)
    places = [-2 if op.transpose_lhs else -1, -1 if op.transpose_rhs else -2]
    for position, place in enumerate(places):
        value = op.operation.operands[position]
        op.operation.operands[position] = graph.keep(value, [place % len(graph.of(value))], 0.0)
    lhs, rhs = graph.of(op.lhs), graph.of(op.rhs)
    rows, columns = lhs[-1 if op.transpose_lhs else -2], rhs[-2 if op.transpose_rhs else -1]
    shape = shape_of(op.result) or ()
    batch = [whole(size) for size in shape[:-2]]
    for extents in (lhs[:-2], rhs[:-2]):
        for axis, extent in enumerate(extents, len(batch) - len(extents)):
            if is_dynamic(extent):
                batch[axis] = extent
    return [[*batch, rows, columns]]


def windows(graph: Rewriter, op: Any, states: States) -> Result:
    """Convolution and pooling: windows that reach over the end see the padding there."""
    require_same(states)
    extents = graph.of(op.input)
    rank = len(extents) - 2
    spatial = range(2, rank + 2) if op.layout == CHANNELS_FIRST else range(1, rank + 1)
    require_static(graph, op, [axis for axis in range(1, rank + 2) if axis not in spatial])
    if isinstance(op, ConvOp | ConvTransposeOp):
        _require_whole(graph, op.weight)
        kernel = (shape_of(op.weight) or ())[2:]
    else:
        kernel = op.kernel
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, op.dilations, strict=True)]
    if isinstance(op, ConvTransposeOp):
        overlaps = [size > step for size, step in zip(reach, op.strides, strict=True)]
    else:
        # Winograd's method sums up more than a window, in such a way that the rest cancels, if it is finite.
        is_tiled = isinstance(op, ConvOp) and set(kernel) == {3}
        overlaps = [is_tiled or op.pads[dim + rank] > 0 or getattr(op, "ceil_mode", False) for dim in range(rank)]
    axes = [axis for axis, overlap in zip(spatial, overlaps, strict=True) if overlap and is_dynamic(extents[axis])]
    if axes and isinstance(op, AveragePoolOp):
        raise BoundedError("how many elements a mean is of depends on the sizes")
    otherwise = least_of(dtype_of(op.input)) if isinstance(op, MaxPoolOp) else 0.0
    op.operation.operands[0] = graph.keep(op.input, axes, otherwise)
    return inferred(graph, op, states)


def inferred(graph: Rewriter, op: Op, states: States) -> Result:
    """The dimensions by the op's own shape function, each a prefix unless it is one of the first operand's as it is."""

    def spec(value: ir.Value) -> TensorSpec:
        return TensorSpec(symbolic(graph.of(value)), dtype_of(value))

    specs = op.infer_specs(spec)
    known = {count_of(extent): extent for extent in graph.of(op.operation.operands[0])}
    return [
        [
            known[dim] if dim in known and size_of(known[dim]) == size else prefix(dim, size)
            for dim, size in zip(item.shape, shape_of(value) or (), strict=True)
        ]
        for item, value in zip(specs, op.operation.results, strict=True)
    ]


def lstm(graph: Rewriter, op: LstmOp, states: States) -> Result:
    """As it is, if only the batch varies."""
    require_same(states)
    for value in op.operation.operands:
        for axis in graph.dynamic(value):
            if not _is_batch(graph, op, value, axis):
                raise BoundedError("the number of steps of a recurrence varies")
    return inferred(graph, op, states)


def _is_batch(graph: Rewriter, op: LstmOp, value: ir.Value, axis: int) -> bool:
    first = op.operation.operands[0]
    return axis == 1 and graph.of(value)[axis] == graph.of(first)[1]


def _require_whole(graph: Rewriter, value: ir.Value) -> None:
    if graph.dynamic(value):
        raise BoundedError("the size of a weight varies")


RULES: dict[type[Op], Rule] = {
    ParameterOp: parameter,
    ConstantOp: literal,
    MatmulOp: matmul,
    ConvOp: windows,
    ConvTransposeOp: windows,
    MaxPoolOp: windows,
    AveragePoolOp: windows,
    LstmOp: lstm,
}
