"""More quantised operators of ONNX Runtime: attention, embeddings, pooling; the channels may be first or last."""

from __future__ import annotations

from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.normalization import SoftmaxOp
from ....build import added, dtype, emit, flattened, normal_axis, rank, reshaped, shape_of, transposed
from ....errors import UnsupportedError
from ...nodes.node import Node
from ...nodes.registry import handler_for, imports
from ..images.pooling import average_pool
from .dynamic import scaled_product
from .quantized import numbers_of, quantized
from .transformers import attention_of_projection, embed_layer_norm

_MS = "com.microsoft"
Value = ir.Value


@imports("QAttention", domain=_MS)
def quantized_attention(
    node: Node,
    input: Value,
    weight: Value,
    bias: Value,
    input_scale: Value,
    weight_scale: Value,
    mask: Value | None = None,
    input_zero: Value | None = None,
    weight_zero: Value | None = None,
    past: Value | None = None,
) -> tuple:
    """QAttention: attention whose projections are a product of bytes."""
    product = scaled_product((input, input_scale, input_zero), (weight, weight_scale, weight_zero))
    return attention_of_projection(node, added(product, bias), mask, past, None)


@imports("QEmbedLayerNormalization", domain=_MS)
def quantized_embedding(
    node: Node,
    words: Value,
    segments: Value | None,
    word_table: Value,
    position_table: Value,
    segment_table: Value | None,
    scale: Value,
    shift: Value,
    mask: Value | None,
    *ranges: Value | None,
) -> tuple:
    """QEmbedLayerNormalization: an embedding and its norm, with all tables in bytes."""
    tables = (word_table, position_table, segment_table, scale, shift)
    scales, zeros = ranges[:5], ranges[5:]
    made = [
        None if table is None or factor is None else numbers_of(table, factor, zero)
        for table, factor, zero in zip(tables, scales, zeros, strict=True)
    ]
    first, second, third, normal_scale, normal_shift = made
    assert first is not None and second is not None and normal_scale is not None and normal_shift is not None
    return embed_layer_norm(node, words, segments, first, second, third, normal_scale, normal_shift, mask)


@imports("QLinearAveragePool", domain=_MS)
def quantized_average_pool(
    node: Node, input: Value, scale: Value, zero: Value | None, out_scale: Value, out_zero: Value | None = None
) -> Value:
    """QLinearAveragePool, with the channels first or last."""
    is_last = bool(node.attribute("channels_last", 0))
    value = numbers_of(_channels_first(input) if is_last else input, scale, zero)
    like = node.as_onnx("AveragePool", 11, ("channels_last",))
    result = quantized(average_pool(like, value), out_scale, out_zero, dtype(input))
    return _channels_last(result) if is_last else result


@imports("NhwcMaxPool", domain=_MS)
def max_pool(node: Node, input: Value) -> Value:
    """MaxPool with the channels last."""
    handler = handler_for("", "MaxPool", 12)
    assert handler is not None
    (result,) = handler(node.as_onnx("MaxPool", 12), _channels_first(input))
    return _channels_last(result)


@imports("QLinearConv", domain=_MS)
def quantized_convolution(node: Node, input: Value, *others: Value | None) -> Value:
    """QLinearConv, with the channels first or last; the weight has them first in both cases."""
    is_last = bool(node.attribute("channels_last", 0))
    handler = handler_for("", "QLinearConv", 10)
    assert handler is not None
    like = node.as_onnx("QLinearConv", 10, ("channels_last",))
    result = handler(like, _channels_first(input) if is_last else input, *others)
    return _channels_last(result) if is_last else result


@imports("QLinearSoftmax", domain=_MS)
def quantized_softmax(
    node: Node, input: Value, scale: Value, zero: Value | None, out_scale: Value, out_zero: Value | None = None
) -> Value:
    """QLinearSoftmax: along one dimension, or (before opset 13) over all dimensions from it on."""
    axis = normal_axis(node.attribute("axis", -1), rank(input))
    value = numbers_of(input, scale, zero)
    if node.attribute("opset", 13) >= 13:
        result = emit(SoftmaxOp, value, axis=axis)
    else:
        result = reshaped(emit(SoftmaxOp, flattened(value, axis), axis=1), shape_of(input))
    return quantized(result, out_scale, out_zero, dtype(input))


@imports("QLinearWhere", domain=_MS)
def quantized_where(
    node: Node,
    condition: Value,
    left: Value,
    left_scale: Value,
    left_zero: Value,
    right: Value,
    right_scale: Value,
    right_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    """QLinearWhere."""
    sides = [
        quantized(numbers_of(*side), scale, zero, dtype(left))
        for side in ((left, left_scale, left_zero), (right, right_scale, right_zero))
    ]
    return emit(ew.SelectOp, condition, *sides)


def _channels_first(value: Value) -> Value:
    last = rank(value) - 1
    if last < 2:
        raise UnsupportedError("has no spatial dimensions")
    return transposed(value, (0, last, *range(1, last)))


def _channels_last(value: Value) -> Value:
    return transposed(value, (0, *range(2, rank(value)), 1))
