"""The pass `stepwell-sum-single-columns`: computes products with one column as reductions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise.arithmetic import AddOp, MulOp
from ....dialects.stepwell.movement import ReshapeOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ....dialects.stepwell.windows import CHANNELS_LAST
from ....support.wording import quantity
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from ..values import is_float, static_shape

# Minimum number of products per row that fills enough of a vector.
_FEWEST = 8


@register
@dataclass(frozen=True)
class SumSingleColumnsPass(Pass):
    """Compute products with a single column, and convolutions with one output channel, by multiply and sum.

    Kernels of contractions hold adjacent columns in a vector. With only one column, the products along the contracted
    dimension fill vectors instead:

    ```mlir
    %0 = "stepwell.matmul"(%x, %w) : (tensor<100x64xf32>, tensor<64x1xf32>) -> tensor<100x1xf32>
    // -->
    %1 = "stepwell.reshape"(%w) {shape = array<i64: 1, 64>} : (tensor<64x1xf32>) -> tensor<1x64xf32>
    %2 = "stepwell.mul"(%x, %1) : (tensor<100x64xf32>, tensor<1x64xf32>) -> tensor<100x64xf32>
    %0 = "stepwell.reduce_sum"(%2) {axes = array<i64: 1>} : (tensor<100x64xf32>) -> tensor<100x1xf32>
    ```

    Preconditions: images have their channels last; weights are not packed yet.
    """

    name = "stepwell-sum-single-columns"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to every product."""
        apply_patterns(op, (SumOfProducts(), SumOfChannels()), state)


class SumOfProducts(Pattern[MatmulOp]):
    """matmul(x [M, K], w [K, 1]) --> reduce_sum(mul(x, reshape(w [1, K])))"""

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        shape, weight = static_shape(op.lhs), static_shape(op.rhs)
        if shape is None or weight is None or not is_float(op.lhs) or op.transpose_lhs:
            return None
        depth, columns = weight[-2:][::-1] if op.transpose_rhs else weight[-2:]
        if columns != 1:
            return None
        if depth < _FEWEST or shape[-2] == 1:
            return Refusal(f"the product has too few elements: {shape[-2]} rows of {depth}")
        row = op.rhs if op.transpose_rhs else ReshapeOp(op.rhs, shape=(*weight[:-2], 1, depth)).result
        return _summed(MulOp(op.lhs, row).result)


class SumOfChannels(Pattern[ConvOp]):
    """conv(x [N, H, W, C], w [1, C, ..], b) --> add(reduce_sum(depthwise conv(x, reshape(w [C, 1, ..]))), b)"""

    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        if static_shape(op.input) is None or not is_float(op.input) or op.layout != CHANNELS_LAST:
            return None
        columns, channels, *kernel = ir.RankedTensorType(op.weight.type).shape
        if columns != 1 or channels == 1:
            return None
        if channels < _FEWEST:
            return Refusal(f"{quantity(channels, 'channel')} do not fill enough of a vector")
        if math.prod(kernel) == 1 and max(op.strides) == 1 and not any(op.pads):
            products = MulOp(op.input, ReshapeOp(op.weight, shape=(channels,)).result).result
        else:
            weight = ReshapeOp(op.weight, shape=(channels, 1, *kernel)).result
            attributes = op.attribute_values()
            attributes["group"] = channels
            products = ConvOp(op.input, weight, **attributes).result
        total = _summed(products)
        return total if op.bias is None else AddOp(total, op.bias).result


def _summed(products: ir.Value) -> ir.Value:
    return ReduceSumOp(products, axes=(ir.RankedTensorType(products.type).rank - 1,)).result
