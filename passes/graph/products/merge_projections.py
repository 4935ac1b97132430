"""The pass `stepwell-merge-projections`: merges the projections of attention operands."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.registry import view_of
from ....dialects.specs import size_of
from ....dialects.stepwell.attention import AttentionOp
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp
from ....dialects.stepwell.movement import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.locations import fused_location
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns, defining_op, has_one_use
from ...kernel.folded_movement import can_view
from ..values import constant, dtype_of, is_fixed, static_shape


@register
@dataclass(frozen=True)
class MergeProjectionsPass(Pass):
    """Merge products that project one value to query, key and value into one product.

    Attention can read strided operands, so the projections may be slices of one contraction, which reads its input
    once. The weights are concatenated in @init.

    ```mlir
    %q = "stepwell.matmul"(%x, %wq) : (tensor<1x8x4xf32>, tensor<4x6xf32>) -> tensor<1x8x6xf32>
    %k = "stepwell.matmul"(%x, %wk) : (tensor<1x8x4xf32>, tensor<4x6xf32>) -> tensor<1x8x6xf32>
    // -->
    %w = "stepwell.concat"(%wq, %wk) {axis = 1} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
    %0 = "stepwell.matmul"(%x, %w) : (tensor<1x8x4xf32>, tensor<4x12xf32>) -> tensor<1x8x12xf32>
    %q = "stepwell.slice"(%0) {starts = [0, 0, 0], stops = [1, 8, 6], steps = [1, 1, 1]}
    %k = "stepwell.slice"(%0) {starts = [0, 0, 6], stops = [1, 8, 12], steps = [1, 1, 1]}
    ```

    Preconditions: shapes are static; weights are not packed yet.
    """

    name = "stepwell-merge-projections"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the pattern to a fixed point."""
        apply_patterns(op, (MergeProjections(),), state)


class MergeProjections(Pattern[AttentionOp]):
    """attention(matmul(x, u), matmul(x, v), w) --> attention(slice(p), slice(p), w) with p = matmul(x, concat(u, v))

    Biases may be added, and the results may then be reshaped and transposed.
    """

    root = AttentionOp

    def rewrite(self, op: AttentionOp) -> Replacement:
        operands = [op.query, op.key, op.value]
        found = {
            index: projection for index, value in enumerate(operands) if (projection := _projection(value)) is not None
        }
        for first in found.values():
            same = {index: item for index, item in found.items() if item.product.lhs == first.product.lhs}
            if len(same) > 1:
                for index, value in zip(same, _merged(list(same.values())), strict=True):
                    operands[index] = value
                return AttentionOp(*operands, op.mask, **op.attribute_values()).result
        return Refusal("its operands are not projections of one value") if found else None


@dataclass(frozen=True)
class _Projection:
    """A product with a weight, and the ops applied to it.

    Attributes:
        product: the product.
        bias: term added to every row.
        movement: the following ops, in order, all of them views.
    """

    product: MatmulOp
    bias: ir.Value | None
    movement: Sequence[Op]

    @property
    def columns(self) -> int:
        """The number of columns of the product."""
        return ir.RankedTensorType(self.product.result.type).shape[-1]

    def weight(self) -> ir.Value:
        """The weight, [depth, columns]."""
        rhs = self.product.rhs
        return TransposeOp(rhs, permutation=(1, 0)).result if self.product.transpose_rhs else rhs

    def row(self) -> ir.Value:
        """The bias, [columns]; zeros if there is none."""
        if self.bias is None:
            return constant(np.zeros(self.columns, dtype_of(self.product.result)))
        return (
            self.bias
            if static_shape(self.bias) == (self.columns,)
            else ReshapeOp(self.bias, shape=(self.columns,)).result
        )


def _projection(value: ir.Value) -> _Projection | None:
    """The projection that computes `value`, if neither it nor an intermediate value has another reader; else None."""
    movement: list[Op] = []
    bias = None
    while has_one_use(value) and not isinstance(value.owner, ir.Block):
        op = view_of(value.owner.operation)
        if isinstance(op, MatmulOp):
            return _Projection(op, bias, movement[::-1]) if _is_projection(op) else None
        if isinstance(op, AddOp) and bias is None:
            product = op.lhs if defining_op(op.lhs, MatmulOp) is not None else op.rhs
            bias = op.rhs if product == op.lhs else op.lhs
            columns = ir.RankedTensorType(value.type).shape[-1]
            if product.type != value.type or not is_fixed(bias) or size_of(bias) != columns:
                return None
            # The last dimension must be the columns: a bias of the same size may vary along the rows instead.
            if (static_shape(bias) or (0,))[-1] != columns:
                return None
            value = product
        elif bias is None and isinstance(op, ReshapeOp | TransposeOp) and can_view(op):
            movement.append(op)
            value = op.input
        else:
            return None
    return None


def _is_projection(op: MatmulOp) -> bool:
    return not op.transpose_lhs and is_fixed(op.rhs) and len(static_shape(op.rhs) or ()) == 2


def _merged(projections: Sequence[_Projection]) -> list[ir.Value]:
    """The results of several projections of one input, as views of one product."""
    weight = _joined([item.weight() for item in projections], 1)
    with fused_location([item.product.operation for item in projections]):
        whole = MatmulOp(projections[0].product.lhs, weight).result
        if any(item.bias is not None for item in projections):
            whole = AddOp(whole, _joined([item.row() for item in projections], 0)).result
    values, start = [], 0
    *outer, _ = static_shape(whole) or (0,)
    for item in projections:
        starts, stops = (*(0 for _ in outer), start), (*outer, start + item.columns)
        value = SliceOp(whole, starts=starts, stops=stops, steps=(1,) * len(starts)).result
        for op in item.movement:
            value = type(op)(value, **op.attribute_values()).operation.results[0]
        values.append(value)
        start += item.columns
    return values


def _joined(values: Sequence[ir.Value], axis: int) -> ir.Value:
    return functools.reduce(lambda left, right: ConcatOp(left, right, axis=axis).result, values)
