"""The pass `stepwell-join-columns`: processes all columns of a row together in norms written as sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects import discardable
from ....dialects.core import Op
from ....dialects.stepwell.elementwise import BinaryOp, MaskOp, UnaryOp
from ....dialects.stepwell.movement import BroadcastToOp, ReshapeOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceSumOp
from ....machines.families import WIDEST_VECTOR_BYTES
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns, defining_op
from ..patterns.movement import DropIdentity, ReshapeOfReshape
from ..values import dtype_of, static_shape

# Minimum width of a group whose columns fill a vector.
_WIDE = WIDEST_VECTOR_BYTES // 4
# Minimum size ratio of the result to an operand that may be repeated along the columns.
_SMALLER = 16


@register
@dataclass(frozen=True)
class JoinColumnsPass(Pass):
    """Process all columns of a row together in norms written as sums over groups too narrow for a vector.

    A reduction over rows and over the columns of a group is split: rows first, while all columns are contiguous, then
    columns. The elementwise ops around it also work on contiguous columns.

    ```mlir
    %1 = "stepwell.reshape"(%x) {shape = array<i64: 1, 24, 8, 4>} : (tensor<1x24x32xf32>) -> tensor<1x24x8x4xf32>
    %2 = "stepwell.relu"(%1) : (tensor<1x24x8x4xf32>) -> tensor<1x24x8x4xf32>
    %3 = "stepwell.reduce_sum"(%2) {axes = array<i64: 1, 3>, keepdims = true}
    // -->
    %1 = "stepwell.relu"(%x) : (tensor<1x24x32xf32>) -> tensor<1x24x32xf32>
    %2 = "stepwell.reduce_sum"(%1) {axes = array<i64: 1>, keepdims = true}
    %3 = "stepwell.reduce_sum"(reshape(%2) : tensor<1x1x8x4xf32>) {axes = array<i64: 3>, keepdims = true}
    ```

    Applies only if sizes vary; otherwise norms are single ops.
    """

    name = "stepwell-join-columns"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to the whole module."""
        if discardable.RANGES.is_on(op):
            apply_patterns(op, (JoinElementwise(), SplitReduction(), DropIdentity(), ReshapeOfReshape()), state)


def _before_split(value: ir.Value) -> ir.Value | None:
    """The value that is reshaped to `value` by splitting its columns into narrow groups; None if there is none."""
    reshape = defining_op(value, ReshapeOp)
    before = None if reshape is None else static_shape(reshape.input)
    if reshape is None or not before or len(reshape.shape) != len(before) + 1:
        return None
    *rows, groups, width = reshape.shape
    is_split = tuple(rows) == before[:-1] and groups > 1 and width > 1
    return reshape.input if is_split and (width < _WIDE or width % _WIDE) else None


class JoinElementwise(Pattern):
    """f(reshape(x), y) --> reshape(f(x, reshape(broadcast_to(y)))) for a small y"""

    root = (UnaryOp, BinaryOp, MaskOp)

    def rewrite(self, op: UnaryOp | BinaryOp | MaskOp) -> Replacement:
        result = op.operation.results[0]
        operands = list(op.operation.operands)
        found = [_before_split(value) for value in operands]
        wide = next((value for value in found if value is not None), None)
        shape = static_shape(result)
        if wide is None or shape is None:
            return None
        joined = [
            value if value is not None and static_shape(value) == static_shape(wide) else _aligned(operand, shape)
            for operand, value in zip(operands, found, strict=True)
        ]
        values = [value for value in joined if value is not None]
        if len(values) < len(joined):
            return Refusal("another operand is too large to be repeated along the columns")
        return ReshapeOp(type(op)(*values, **op.attribute_values()).operation.results[0], shape=shape).result


def _aligned(value: ir.Value, wide: Sequence[int]) -> ir.Value | None:
    """A small operand of an op on groups and their columns, with one dimension for both; None if too large."""
    shape = static_shape(value)
    if shape is None or math.prod(shape) * _SMALLER > math.prod(wide):
        return None
    if not shape:
        return value
    padded = (1,) * max(0, 2 - len(shape)) + shape
    if math.prod(padded[-2:]) == 1:
        return ReshapeOp(value, shape=(*padded[:-2], 1)).result
    repeated = (*padded[:-2], *wide[-2:])
    if math.prod(repeated) * _SMALLER > math.prod(wide):
        return None
    value = value if repeated == shape else BroadcastToOp(value, shape=repeated).result
    return ReshapeOp(value, shape=(*padded[:-2], math.prod(wide[-2:]))).result


class SplitReduction(Pattern):
    """reduce(reshape(x), rows and columns) --> reduce(reshape(reduce(x, rows)), columns)"""

    root = (ReduceSumOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp)

    def rewrite(self, op: ReduceSumOp | ReduceProdOp | ReduceMaxOp | ReduceMinOp) -> Replacement:
        source, shape = _before_split(op.input), static_shape(op.input)
        if source is None or shape is None or not op.keepdims:
            return None
        last = len(shape) - 1
        rows = sorted({axis % len(shape) for axis in op.axes} - {last})
        if len(rows) == len(op.axes) or last - 1 in rows or math.prod(shape[axis] for axis in rows) == 1:
            return None
        if dtype_of(source).itemsize < 4:
            return Refusal("sums of narrow types would be rounded after each part")
        first = _reduced(op, source, rows)
        parts = tuple(1 if axis in rows else size for axis, size in enumerate(shape))
        return _reduced(op, ReshapeOp(first, shape=parts).result, [last])


def _reduced(op: Op, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    return type(op)(value, axes=tuple(axes), keepdims=True).operation.results[0]
