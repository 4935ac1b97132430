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
from ..parts.byte_products import Bytes, may_multiply, multiplied
from ..parts.recurrence import Product, recurrent
from ..quantization import dynamic_quantize
from ..recurrent import lstm_cell
from .quantized import beyond

_F32 = np.dtype(np.float32)
_MS = "com.microsoft"
Value = ir.Value


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
    return added(scaled_product(node, Bytes(a, a_zero), a_scale, Bytes(b, b_zero), b_scale), bias)


@imports("DynamicQuantizeMatMul", domain=_MS)
def dynamic_quantize_matmul(
    node: Node, a: Value, b: Value, b_scale: Value, b_zero: Value | None = None, bias: Value | None = None
) -> Value:
    """DynamicQuantizeMatMul: A is quantised by its range."""
    return added(_by_range(node, a, Bytes(b, b_zero), b_scale), bias)


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

    def product(weights: Value, scale: Value, zero: Value) -> Product:
        directions = range(known_dim(weights, 0, "the number of directions"))
        parts = [[_of_direction(node, item, index) for item in (weights, scale, zero)] for index in directions]

        def times(value: Value, direction: int) -> Value:
            own, own_scale, own_zero = parts[direction]
            return _by_range(node, value, Bytes(own, own_zero), own_scale)

        return times

    products = product(weight, weight_scale, weight_zero), product(recurrence, recurrence_scale, recurrence_zero)
    parts = (input, weight, recurrence, bias, peepholes)
    return recurrent(node, lstm_cell(node), parts, lengths, [initial_h, initial_c], products)


def _of_direction(node: Node, values: Value, direction: int) -> Value:
    """One direction's part of a tensor; stored if the tensor is, as only stored weights are multiplied as bytes."""
    known = node.known(values)
    if known is None:
        return row(values, constant(np.array(direction)))
    return node.importer.weight(f"{node.name}.direction{direction}", np.ascontiguousarray(known[direction]))


def _by_range(node: Node, value: Value, by: Bytes, scale: Value) -> Value:
    numbers, own_scale, zero = dynamic_quantize(node, value)
    return scaled_product(node, Bytes(numbers, zero), own_scale, by, scale)


def scaled_product(node: Node, left: Bytes, left_scale: Value, right: Bytes, right_scale: Value) -> Value:
    """The product of both operands minus their zero points, times both scales."""
    if may_multiply(node, left, right):
        total = multiplied(node, left, right)
    else:
        # The left operand has zero points per row, the right one per column.
        zero = left.zero if left.zero is None or rank(left.zero) == 0 else emit(ExpandDimsOp, left.zero, axes=(1,))
        total = emit(MatmulOp, beyond(left.numbers, zero), beyond(right.numbers, right.zero))
    return emit(ew.MulOp, cast(total, _F32), emit(ew.MulOp, left_scale, right_scale))
