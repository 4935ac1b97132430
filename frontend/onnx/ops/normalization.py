"""Softmax and normalisations."""

from __future__ import annotations

from mlir import ir
from onnx import TensorProto

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp, TileOp
from ....dialects.stepwell.normalization import (
    BatchNormOp,
    LayerNormOp,
    LocalResponseNormOp,
    LogSoftmaxOp,
    RmsNormOp,
    SoftmaxOp,
)
from ....dialects.stepwell.reduction import ReduceMeanOp, ReduceSumOp
from ...build import (
    cast,
    dtype,
    emit,
    flattened,
    integers,
    known_dim,
    normal_axis,
    rank,
    reshaped,
    scalar,
    shape,
    shape_of,
)
from ...errors import UnsupportedError
from ..nodes.node import Node
from ..nodes.registry import imports
from .training import batch_norm_by_batch

_SOFTMAX: dict[str, type[Op]] = {"Softmax": SoftmaxOp, "LogSoftmax": LogSoftmaxOp}


@imports("Softmax", "LogSoftmax")
def flattened_softmax(node: Node, input: ir.Value) -> ir.Value:
    """Softmax of opset 1: over all dimensions from `axis` on, merged into one."""
    axis, op = node.attribute("axis"), _SOFTMAX[node.op_type]
    start = axis if axis == rank(input) else normal_axis(axis, rank(input))
    if all(dim == 1 for dim in shape(input)[start + 1 :]) and start < rank(input):
        return emit(op, input, axis=start)
    return reshaped(emit(op, flattened(input, start), axis=1), shape_of(input))


@imports("Softmax", "LogSoftmax", since=13)
def softmax(node: Node, input: ir.Value) -> ir.Value:
    """Softmax of opset 13: along one dimension."""
    return emit(_SOFTMAX[node.op_type], input, axis=normal_axis(node.attribute("axis"), rank(input)))


@imports("BatchNormalization")
def batch_norm(node: Node, *inputs: ir.Value) -> tuple[ir.Value, ...]:
    """BatchNormalization; before opset 14 the outputs of training are not supported.

    From opset 15 on the statistics may have another element type than the input.
    """
    if node.attribute("training_mode", 0):
        return batch_norm_by_batch(node, *inputs)
    node.ignore("momentum")
    if not node.attribute("spatial", 1):
        raise UnsupportedError("normalises each position separately (spatial = 0), which is not supported")
    return (
        emit(
            BatchNormOp,
            inputs[0],
            *(cast(value, dtype(inputs[0])) for value in inputs[1:]),
            epsilon=node.attribute("epsilon"),
        ),
    )


@imports("LayerNormalization")
@imports("LayerNormalization", domain="com.microsoft")
def layer_norm(node: Node, input: ir.Value, scale: ir.Value, bias: ir.Value | None = None) -> tuple[ir.Value]:
    """LayerNormalization, without mean and deviation as outputs."""
    axis, epsilon = node.attribute("axis", -1), node.attribute("epsilon", 1e-5)
    return (emit(LayerNormOp, input, scale, bias, axis=axis, epsilon=epsilon),)


@imports("RMSNormalization")
@imports("SimplifiedLayerNormalization", domain="com.microsoft")
def rms_norm(node: Node, input: ir.Value, scale: ir.Value) -> tuple[ir.Value]:
    """RMSNormalization: without subtracting the mean."""
    if node.attribute("stash_type", TensorProto.FLOAT) != TensorProto.FLOAT:
        raise UnsupportedError("attribute 'stash_type' is not supported")
    axis, epsilon = node.attribute("axis", -1), node.attribute("epsilon", 1e-5)
    return (emit(RmsNormOp, input, scale, axis=axis, epsilon=epsilon),)


@imports("InstanceNormalization")
def instance_norm(node: Node, input: ir.Value, scale: ir.Value, bias: ir.Value) -> ir.Value:
    """InstanceNormalization: each channel of each image is normalised separately, then scaled and shifted."""
    normal = emit(LayerNormOp, input, axis=2, epsilon=node.attribute("epsilon"))
    return _scaled_channels(normal, scale, bias)


def _scaled_channels(input: ir.Value, scale: ir.Value, bias: ir.Value) -> ir.Value:
    spatial = tuple(range(1, rank(input) - 1))
    scale, bias = (emit(ExpandDimsOp, value, axes=spatial) if spatial else value for value in (scale, bias))
    return emit(ew.AddOp, emit(ew.MulOp, input, scale), bias)


@imports("GroupNormalization", since=18)
def group_norm_by_group(node: Node, input: ir.Value, scale: ir.Value, bias: ir.Value) -> ir.Value:
    """GroupNormalization of opset 18, with a scale for each group of channels."""
    groups = node.attribute("num_groups")
    share = known_dim(input, 1, "the number of channels") // groups
    scale, bias = (_repeated(value, share) for value in (scale, bias))
    return group_norm(node, input, scale, bias)


def _repeated(value: ir.Value, times: int) -> ir.Value:
    """Repeats each element `times` times."""
    return emit(
        DynamicReshapeOp, emit(TileOp, emit(ExpandDimsOp, value, axes=(1,)), repeats=(1, times)), integers([-1])
    )


@imports("GroupNormalization", since=21)
def group_norm(node: Node, input: ir.Value, scale: ir.Value, bias: ir.Value) -> ir.Value:
    """GroupNormalization of opset 21, with a scale for each channel.

    [n, c, ...] --> [n, groups, c / groups * ...], normalised along the last --> [n, c, ...]
    """
    grouped = emit(DynamicReshapeOp, input, integers([0, node.attribute("num_groups"), -1]))
    normal = emit(LayerNormOp, grouped, axis=2, epsilon=node.attribute("epsilon"))
    return _scaled_channels(reshaped(normal, shape_of(input)), scale, bias)


@imports("LRN")
def local_response_norm(node: Node, input: ir.Value) -> ir.Value:
    """LRN."""
    names = ("size", "alpha", "beta", "bias")
    return emit(LocalResponseNormOp, input, **{name: node.attribute(name) for name in names})


@imports("LpNormalization")
def lp_norm(node: Node, input: ir.Value) -> ir.Value:
    """LpNormalization: divides by the sum of magnitudes, or by the root of the sum of squares, along an axis."""
    axes = (normal_axis(node.attribute("axis"), rank(input)),)
    if node.attribute("p") == 1:
        norm = emit(ReduceSumOp, emit(ew.AbsOp, input), axes=axes, keepdims=True)
    else:
        norm = emit(ew.SqrtOp, emit(ReduceSumOp, emit(ew.MulOp, input, input), axes=axes, keepdims=True))
    zero = scalar(0, input)
    return emit(ew.SelectOp, emit(ew.EqualOp, norm, zero), zero, emit(ew.DivOp, input, norm))


@imports("MeanVarianceNormalization")
def mean_variance_norm(node: Node, input: ir.Value) -> ir.Value:
    """MeanVarianceNormalization: (x - mean) / (deviation + 1e-9) along some axes."""
    axes = tuple(normal_axis(axis, rank(input)) for axis in node.attribute("axes"))
    centred = emit(ew.SubOp, input, emit(ReduceMeanOp, input, axes=axes, keepdims=True))
    variance = emit(ReduceMeanOp, emit(ew.MulOp, centred, centred), axes=axes, keepdims=True)
    return emit(ew.DivOp, centred, emit(ew.AddOp, emit(ew.SqrtOp, variance), scalar(1e-9, input)))
