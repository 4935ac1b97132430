"""The pass `stepwell-multiply-bytes`: computes products of quantised values on their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise import AddOp, MulOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from ..values import dtype_of, is_fixed, is_float, rank_of
from .dequantize_late import DequantizeAfterConcat
from .quantized_values import Quantized, dequantized, integers_of, is_one, obstacle_of
from .zero_points import convolution_obstacle, convolved, multiplied, product_obstacle, spread

_I32 = np.dtype(np.int32)


@register
@dataclass(frozen=True)
class MultiplyBytesPass(Pass):
    """Compute matrix products and convolutions of quantised values on their bytes, with sums in i32.

    Operands are quantised if they are computed as `(numbers - zero) * scale`, or without a scale in i32. The right
    operand is fixed. Zero points are taken out of the sums: those of the left operand by sums of the weight, which are
    computed once. For products whose operands are quantised in another way, a remark gives the reason.

    ```mlir
    %1 = "stepwell.cast"(%a) {dtype = f32} : (tensor<4x8xui8>) -> tensor<4x8xf32>
    %2 = "stepwell.mul"(%1, %s) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %3 = "stepwell.cast"(%b) {dtype = f32} : (tensor<8x2xi8>) -> tensor<8x2xf32>
    %4 = "stepwell.mul"(%3, %t) : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
    %0 = "stepwell.matmul"(%2, %4) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    // -->
    %1 = "stepwell.matmul"(%a, %b) : (tensor<4x8xui8>, tensor<8x2xi8>) -> tensor<4x2xi32>
    %2 = "stepwell.cast"(%1) {dtype = f32} : (tensor<4x2xi32>) -> tensor<4x2xf32>
    %3 = "stepwell.mul"(%s, %t) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
    %0 = "stepwell.mul"(%2, %3) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    ```

    Preconditions: constants are not folded yet, images have their channels first.
    """

    name = "stepwell-multiply-bytes"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point: bytes are joined first, then multiplied."""
        parameters = state.parameters or {}
        apply_patterns(op, (DequantizeAfterConcat(parameters),), state)
        apply_patterns(op, (MultiplyDequantized(parameters), MultiplyIntegers(parameters)), state)


@dataclass(frozen=True)
class MultiplyIntegers(Pattern[MatmulOp]):
    """matmul(a - p, b - q) in i32 --> matmul(a, b) - p * (sum b - K q) - q * sum a, of bytes; conv likewise"""

    parameters: Mapping[str, np.ndarray] = field(hash=False)
    root = (MatmulOp, ConvOp)

    def rewrite(self, op: MatmulOp | ConvOp) -> Replacement:
        first, second, *_ = op.operand_values()
        left, right = integers_of(_required(first)), integers_of(_required(second))
        if dtype_of(op.result) != _I32 or left is None or right is None:
            return None
        reason = _obstacle(op, left, right, self.parameters)
        return Refusal(reason) if reason else _total(op, left, right, self.parameters, with_bias=True)


@dataclass(frozen=True)
class MultiplyDequantized(Pattern[MatmulOp]):
    """matmul((a - p) * s, (b - q) * t) --> cast(matmul(a - p, b - q)) * (s * t); conv(x, w, bias) likewise"""

    parameters: Mapping[str, np.ndarray] = field(hash=False)
    root = (MatmulOp, ConvOp)

    def rewrite(self, op: MatmulOp | ConvOp) -> Replacement:
        first, second = map(_required, op.operand_values()[:2])
        if not is_float(op.result) or is_fixed(first):
            return None
        left, right = dequantized(first), dequantized(second)
        if left is None and right is None:
            return None
        if left is None or right is None:
            return Refusal(f"the {'right' if left else 'left'} operand {obstacle_of(second if left else first)}")
        reason = _obstacle(op, left, right, self.parameters)
        if reason:
            return Refusal(reason)
        total = _total(op, left, right, self.parameters, with_bias=False)
        factor = MulOp(_scale(op, left, 0), _scale(op, right, 1)).result
        result = MulOp(CastOp(total, dtype=dtype_of(factor)).result, factor).result
        result = result if dtype_of(result) == dtype_of(op.result) else CastOp(result, dtype=dtype_of(op.result)).result
        if isinstance(op, ConvOp) and op.bias is not None:
            return AddOp(result, _along_channels(op.bias, op)).result
        return result


def _required(value: ir.Value | None) -> ir.Value:
    assert value is not None, "the first two operands are not optional"
    return value


def _obstacle(op: MatmulOp | ConvOp, left: Quantized, right: Quantized, parameters: Mapping[str, np.ndarray]) -> str:
    if isinstance(op, ConvOp):
        return convolution_obstacle(op, left, right, parameters)
    return product_obstacle(op, left, right)


def _total(
    op: MatmulOp | ConvOp, left: Quantized, right: Quantized, parameters: Mapping[str, np.ndarray], *, with_bias: bool
) -> ir.Value:
    if isinstance(op, ConvOp):
        return convolved(op, left, right, op.bias if with_bias else None, parameters)
    return multiplied(op, left, right, parameters)


def _scale(op: MatmulOp | ConvOp, quantized: Quantized, index: int) -> ir.Value:
    """The scale of an operand, in a shape that broadcasts with the result."""
    assert quantized.scale is not None, "it is dequantised"
    if index == 0:
        return spread(quantized, quantized.scale)
    scale = spread(quantized, quantized.scale, as_list=True)
    return scale if isinstance(op, MatmulOp) or is_one(scale) else _along_channels(scale, op)


def _along_channels(values: ir.Value, op: ConvOp) -> ir.Value:
    """One value per output channel, in a shape that broadcasts with the result of a convolution."""
    return ExpandDimsOp(values, axes=tuple(range(1, rank_of(op.result) - 1))).result
