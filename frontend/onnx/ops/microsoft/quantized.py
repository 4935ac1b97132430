"""Quantised operators of ONNX Runtime: computed on floats, between a dequantisation and a quantisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import ExpandDimsOp
from .....dialects.stepwell.reduction import ReduceMeanOp
from .....support.wording import quantity
from ....build import added, cast, dtype, emit, joined, normal_axis, rank, scalar
from ....errors import NodeError
from ...nodes.node import Node
from ...nodes.registry import imports
from ..quantization import dequantize, quantize, requantized

_F32, _I32 = np.dtype(np.float32), np.dtype(np.int32)
Value = ir.Value

imports("DequantizeLinear", domain="com.microsoft")(dequantize)
imports("QuantizeLinear", domain="com.microsoft")(quantize)


def numbers_of(value: Value, scale: Value, zero: Value | None) -> Value:
    """Dequantises values."""
    return emit(ew.MulOp, cast(beyond(value, zero), _F32), scale)


def beyond(value: Value, zero: Value | None) -> Value:
    """`value - zero` in i32."""
    wide = cast(value, _I32)
    return wide if zero is None else emit(ew.SubOp, wide, cast(zero, _I32))


def quantized(value: Value, scale: Value, zero: Value | None, kind: np.dtype) -> Value:
    """Quantises numbers to integers with a scale and a zero point."""
    return requantized(emit(ew.DivOp, value, scale), zero, kind)


def _binary(op: type[ew.AddOp] | type[ew.MulOp]) -> Callable[..., Value]:
    def handler(
        node: Node,
        a: Value,
        a_scale: Value,
        a_zero: Value | None,
        b: Value,
        b_scale: Value,
        b_zero: Value | None,
        scale: Value,
        zero: Value | None = None,
    ) -> Value:
        result = emit(op, numbers_of(a, a_scale, a_zero), numbers_of(b, b_scale, b_zero))
        return quantized(result, scale, zero, dtype(a))

    return handler


imports("QLinearAdd", domain="com.microsoft")(_binary(ew.AddOp))
imports("QLinearMul", domain="com.microsoft")(_binary(ew.MulOp))


def _leaky_relu(node: Node, value: Value) -> Value:
    return emit(ew.LeakyReluOp, value, alpha=node.attribute("alpha", 0.01))


def _sigmoid(node: Node, value: Value) -> Value:
    return emit(ew.SigmoidOp, value)


def _unary(function: Callable[[Node, Value], Value]) -> Callable[..., Value]:
    def handler(
        node: Node, input: Value, input_scale: Value, input_zero: Value | None, scale: Value, zero: Value | None = None
    ) -> Value:
        return quantized(function(node, numbers_of(input, input_scale, input_zero)), scale, zero, dtype(input))

    return handler


imports("QLinearLeakyRelu", domain="com.microsoft")(_unary(_leaky_relu))
imports("QLinearSigmoid", domain="com.microsoft")(_unary(_sigmoid))


@imports("QLinearGlobalAveragePool", domain="com.microsoft")
def qlinear_global_average_pool(
    node: Node, input: Value, input_scale: Value, input_zero: Value, scale: Value, zero: Value
) -> Value:
    """QLinearGlobalAveragePool, with the channels first or last."""
    is_last = bool(node.attribute("channels_last", 0))
    axes = tuple(range(1, rank(input) - 1) if is_last else range(2, rank(input)))
    mean = emit(ReduceMeanOp, numbers_of(input, input_scale, input_zero), axes=axes, keepdims=True)
    return quantized(mean, scale, zero, dtype(input))


@imports("QLinearConcat", domain="com.microsoft")
def qlinear_concat(node: Node, scale: Value, zero: Value, *parts: Value) -> Value:
    """QLinearConcat: each part has its own scale and zero point."""
    if not parts or len(parts) % 3:
        raise NodeError(
            f"takes a tensor, a scale and a zero point for each part, but has {quantity(len(parts), 'input')} for parts"
        )
    kind = dtype(zero)
    made = [quantized(numbers_of(*parts[start : start + 3]), scale, zero, kind) for start in range(0, len(parts), 3)]
    return joined(made, normal_axis(node.attribute("axis"), rank(made[0])))


@imports("QGemm", domain="com.microsoft")
def qgemm(
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    bias: Value | None = None,
    scale: Value | None = None,
    zero: Value | None = None,
) -> Value:
    """QGemm: alpha * A * B + C; the result is quantised if it has a scale."""
    transposes = {
        "transpose_lhs": bool(node.attribute("transA", 0)),
        "transpose_rhs": bool(node.attribute("transB", 0)),
    }
    per_column = rank(b_zero) == 0 or not transposes["transpose_rhs"]
    spread = b_zero if per_column else emit(ExpandDimsOp, b_zero, axes=(1,))
    total = emit(MatmulOp, beyond(a, a_zero), beyond(b, spread), **transposes)
    factor = emit(ew.MulOp, emit(ew.MulOp, a_scale, b_scale), scalar(node.attribute("alpha", 1.0), a_scale))
    result = emit(ew.MulOp, cast(added(total, bias), _F32), factor)
    return result if scale is None else quantized(result, scale, zero, dtype(a) if zero is None else dtype(zero))
