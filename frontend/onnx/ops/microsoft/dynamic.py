"""Operators of ONNX Runtime that quantise their inputs by the range of their values at run time."""

from __future__ import annotations

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import ExpandDimsOp
from ....build import added, cast, constant, emit, known_dim, rank
from ....loops import row
from ...nodes.node import Node
from ...nodes.registry import imports
from ..parts.recurrence import GateProduct, recurrent
from ..quantization import dynamic_quantize
from ..recurrent import lstm_cell
from .quantized import beyond

_F32 = np.dtype(np.float32)
_MS = "com.microsoft"
Value = ir.Value
_Quantized = tuple[Value, Value, Value | None]
"""Integers, their scale and their zero point."""


@imports("MatMulIntegerToFloat", domain=_MS)
def matmul_integer_to_float(
    node: Node,
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value | None = None,
    b_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """MatMulIntegerToFloat: the product of both operands minus their zero points, times both scales."""
    return added(scaled_product((a, a_scale, a_zero), (b, b_scale, b_zero)), bias)


@imports("DynamicQuantizeMatMul", domain=_MS)
def dynamic_quantize_matmul(
    node: Node, a: Value, b: Value, b_scale: Value, b_zero: Value | None = None, bias: Value | None = None
) -> Value:
    """DynamicQuantizeMatMul: A is quantised by its range."""
    return added(_by_range(node, a, (b, b_scale, b_zero)), bias)


@imports("DynamicQuantizeLSTM", domain=_MS)
def dynamic_quantize_lstm(
    node: Node,
    input: Value,
    weight: Value,
    recurrence: Value,
    bias: Value | None,
    lengths: Value | None,
    initial_h: Value | None,
    initial_c: Value | None,
    peepholes: Value | None,
    weight_scale: Value,
    weight_zero: Value,
    recurrence_scale: Value,
    recurrence_zero: Value,
) -> tuple[Value | None, ...]:
    """DynamicQuantizeLSTM: inputs of all steps are quantised together, states step by step."""

    def product(weights: Value, scale: Value, zero: Value) -> GateProduct:
        directions = range(known_dim(weights, 0, "the number of directions"))
        parts = [[row(item, constant(np.array(index))) for item in (weights, scale, zero)] for index in directions]

        def times(value: Value, direction: int) -> Value:
            own, own_scale, own_zero = parts[direction]
            return _by_range(node, value, (own, own_scale, own_zero))

        return times

    products = product(weight, weight_scale, weight_zero), product(recurrence, recurrence_scale, recurrence_zero)
    parts = (input, weight, recurrence, bias, peepholes)
    return recurrent(node, lstm_cell(node), parts, lengths, [initial_h, initial_c], products)


def _by_range(node: Node, value: Value, by: _Quantized) -> Value:
    return scaled_product(dynamic_quantize(node, value), by)


def scaled_product(left: _Quantized, right: _Quantized) -> Value:
    """The product of both operands minus their zero points, times both scales."""
    (a, a_scale, a_zero), (b, b_scale, b_zero) = left, right
    # The left operand has zero points per row, the right one per column.
    rows = a_zero if a_zero is None or rank(a_zero) == 0 else emit(ExpandDimsOp, a_zero, axes=(1,))
    total = emit(MatmulOp, beyond(a, rows), beyond(b, b_zero))
    return emit(ew.MulOp, cast(total, _F32), emit(ew.MulOp, a_scale, b_scale))
