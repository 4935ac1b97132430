"""Forms in ONNX of ops that combine elements: reductions, running totals, normalisations, pooling, recurrent layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .....dialects.stepwell import cumulative, normalization, pooling, recurrent, reduction, sorting
from .....dialects.stepwell.windows import CHANNELS_FIRST
from .....dialects.types import spec_of_type
from ..node_writer import NodeWriter
from ..onnx_form import ONNX_FORM, NoOnnxFormError, same, static_shape

ONNX_FORM.attach(reduction.ArgmaxOp)(same("ArgMax", "axis", "keepdims"))
ONNX_FORM.attach(normalization.SoftmaxOp)(same("Softmax", "axis"))
ONNX_FORM.attach(normalization.LogSoftmaxOp)(same("LogSoftmax", "axis"))


@ONNX_FORM.attach(
    reduction.ReduceSumOp, reduction.ReduceMeanOp, reduction.ReduceProdOp, reduction.ReduceMaxOp, reduction.ReduceMinOp
)
def reduced(op: reduction.ReductionOp, nodes: NodeWriter) -> str:
    """ReduceSum over the axes; over none, the input"""
    words = op.OPERATION_NAME.removeprefix("stepwell.").split("_")
    kind = "".join(word.capitalize() for word in words)
    return nodes.add(kind, op.input, nodes.integers(op.axes), keepdims=int(op.keepdims), noop_with_empty_axes=1)


@ONNX_FORM.attach(cumulative.CumulativeOp)
def running_total(op: cumulative.CumulativeOp, nodes: NodeWriter) -> str:
    """CumSum"""
    if op.mode != "sum":
        raise NoOnnxFormError("ONNX before opset 26 has no running products")
    axis = nodes.constant(np.array(op.axis, np.int64), "axis")
    return nodes.add("CumSum", op.input, axis, exclusive=int(op.exclusive), reverse=int(op.reverse))


@ONNX_FORM.attach(normalization.LayerNormOp)
def layer_norm(op: normalization.LayerNormOp, nodes: NodeWriter) -> str:
    """LayerNormalization, which always has a scale"""
    spec = spec_of_type(op.input.type)
    inner = spec.shape[op.axis % spec.rank :]
    scale = op.scale
    if scale is None:
        scale = nodes.add("Expand", nodes.scalar_like(op.input, 1), nodes.sizes(inner))
    return nodes.add("LayerNormalization", op.input, scale, op.bias, axis=op.axis, epsilon=op.epsilon)


@ONNX_FORM.attach(normalization.RmsNormOp)
def rms_norm(op: normalization.RmsNormOp, nodes: NodeWriter) -> str:
    """x / Sqrt(ReduceMean(x * x) + epsilon) * scale"""
    rank = spec_of_type(op.input.type).rank
    axes = nodes.integers(range(op.axis % rank, rank))
    mean = nodes.add("ReduceMean", nodes.add("Mul", op.input, op.input), axes, keepdims=1)
    root = nodes.add("Sqrt", nodes.add("Add", mean, nodes.scalar_like(op.input, op.epsilon)))
    result = nodes.add("Div", op.input, root)
    return result if op.scale is None else nodes.add("Mul", result, op.scale)


@ONNX_FORM.attach(normalization.BatchNormOp)
def batch_norm(op: normalization.BatchNormOp, nodes: NodeWriter) -> str:
    """BatchNormalization"""
    _require_channels_first(op)
    return nodes.add("BatchNormalization", *op.operand_values(), epsilon=op.epsilon)


@ONNX_FORM.attach(normalization.LocalResponseNormOp)
def local_response_norm(op: normalization.LocalResponseNormOp, nodes: NodeWriter) -> str:
    """LRN"""
    _require_channels_first(op)
    return nodes.add("LRN", op.input, size=op.size, alpha=op.alpha, beta=op.beta, bias=op.bias)


@ONNX_FORM.attach(pooling.MaxPoolOp)
def max_pool(op: pooling.MaxPoolOp, nodes: NodeWriter) -> str:
    """MaxPool"""
    return nodes.add("MaxPool", op.input, **_window(op))


@ONNX_FORM.attach(pooling.MaxPoolIndicesOp)
def max_pool_indices(op: pooling.MaxPoolIndicesOp, nodes: NodeWriter) -> str:
    """The indices of MaxPool, which count the elements of all channels, modulo the elements of a channel"""
    _, indices = nodes.add_many("MaxPool", [op.input], 2, **_window(op))
    count = math.prod(static_shape(op.input)[2:])
    return nodes.add("Mod", indices, nodes.scalar_like(op.result, count))


@ONNX_FORM.attach(pooling.AveragePoolOp)
def average_pool(op: pooling.AveragePoolOp, nodes: NodeWriter) -> str:
    """AveragePool"""
    return nodes.add("AveragePool", op.input, count_include_pad=int(op.count_include_pad), **_window(op))


@ONNX_FORM.attach(pooling.SumPoolOp)
def sum_pool(op: pooling.SumPoolOp, nodes: NodeWriter) -> str:
    """AveragePool times the number of elements of a window"""
    if op.ceil_mode:
        raise NoOnnxFormError("ONNX has no sums over windows that overhang the image")
    means = nodes.add("AveragePool", op.input, count_include_pad=1, **_window(op))
    return nodes.add("Mul", means, nodes.scalar_like(op.input, math.prod(op.kernel)))


def _window(op: Any) -> dict[str, Any]:
    _require_channels_first(op)
    return {
        "kernel_shape": op.kernel,
        "strides": op.strides,
        "pads": op.pads,
        "dilations": op.dilations,
        "ceil_mode": int(op.ceil_mode),
    }


def _require_channels_first(op: Any) -> None:
    if op.layout != CHANNELS_FIRST:
        raise NoOnnxFormError("ONNX takes images with channels first only")


@ONNX_FORM.attach(recurrent.LstmOp)
def lstm(op: recurrent.LstmOp, nodes: NodeWriter) -> list[str]:
    """LSTM"""
    weight, recurrence, bias = op.weight, op.recurrence, op.bias
    size = static_shape(recurrence)[2]
    inputs = [op.input, weight, recurrence, bias, None, op.initial_h, op.initial_c]
    return nodes.add_many("LSTM", inputs, 3, hidden_size=size, direction=op.direction)


@ONNX_FORM.attach(sorting.TopKOp)
def top_k(op: sorting.TopKOp, nodes: NodeWriter) -> str:
    """The indices of TopK"""
    if op.count is not None:
        raise NoOnnxFormError("ONNX cannot limit the number of elements that are sorted")
    return nodes.add_many("TopK", [op.input, nodes.integers([op.k])], 2, largest=int(op.largest))[1]
