"""Softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp
from ....dialects.stepwell.normalization import BatchNormOp, LayerNormOp, LogSoftmaxOp, RmsNormOp, SoftmaxOp
from ....dialects.stepwell.reduction import ReduceMeanOp
from ....dialects.stepwell.shape import FillOp
from ...build import cast, dims_of, dtype, emit, integers, rank, reshaped, scalar, shape_of
from ...errors import UnsupportedError
from ..node import AtenNode, axis_of
from ..registry import AtenHandler, imports
from ..symbols import AtenSize
from .reduction import squared_deviation


def _softmax(op: type[Op], node: AtenNode, input: ir.Value, dim: int) -> ir.Value:
    value = cast(input, node.dtype())
    if rank(value) == 0:
        return reshaped(emit(op, emit(ExpandDimsOp, value, axes=(0,)), axis=0), integers([]))
    return emit(op, value, axis=axis_of(value, dim))


def _handler(op: type[Op]) -> AtenHandler:
    return lambda node, input, dim: _softmax(op, node, input, dim)


for _name, _op in (("softmax", SoftmaxOp), ("log_softmax", LogSoftmaxOp)):
    imports(f"aten.{_name}.int", f"aten._{_name}.default")(_handler(_op))


@imports("aten.layer_norm.default")
def layer_norm(
    node: AtenNode,
    input: ir.Value,
    normalized_shape: Sequence[AtenSize],
    weight: ir.Value | None,
    bias: ir.Value | None,
    eps: float,
) -> ir.Value:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last dimensions."""
    axis = rank(input) - len(normalized_shape)
    kinds = {dtype(item) for item in (input, weight, bias) if item is not None}
    if len(kinds) > 1:  # numbers of 16 bits, with weights of 32 bits
        wide = [None if item is None else cast(item, np.dtype(np.float32)) for item in (input, weight, bias)]
        return cast(emit(LayerNormOp, *wide, axis=axis, epsilon=eps), node.dtype(0))
    return emit(LayerNormOp, input, weight, bias, axis=axis, epsilon=eps)


@imports("aten.native_layer_norm.default")
def native_layer_norm(
    node: AtenNode,
    input: ir.Value,
    normalized_shape: Sequence[AtenSize],
    weight: ir.Value | None,
    bias: ir.Value | None,
    eps: float,
) -> tuple[ir.Value | None, ...]:
    """Layer norm, mean, and 1 / sqrt(variance + eps)."""
    made = layer_norm(node, input, normalized_shape, weight, bias, eps)
    return made, *_statistics(node, input, _last_axes(input, normalized_shape), eps)


def _last_axes(input: ir.Value, shape: Sequence[AtenSize]) -> tuple[int, ...]:
    return tuple(range(rank(input) - len(shape), rank(input)))


def _inverse_deviation(variance: ir.Value, eps: float) -> ir.Value:
    """1 / sqrt(variance + eps)"""
    return emit(ew.RsqrtOp, emit(ew.AddOp, variance, scalar(eps, variance)))


def _statistics(node: AtenNode, value: ir.Value, axes: tuple[int, ...], eps: float) -> tuple[ir.Value | None, ...]:
    """Mean and 1 / sqrt(variance + eps) in the shapes of results 1 and 2; None if they are not read."""
    if not node.is_used(1) and not node.is_used(2):
        return None, None
    variance, mean = squared_deviation(cast(value, node.dtype(1)), axes, True, 0)
    return reshaped(mean, node.shape(1)), reshaped(_inverse_deviation(variance, eps), node.shape(2))


@imports("aten.rms_norm.default")
def rms_norm(
    node: AtenNode, input: ir.Value, normalized_shape: Sequence[AtenSize], weight: ir.Value | None, eps: float | None
) -> ir.Value:
    """x / sqrt(mean(x * x) + eps) * weight, over the last dimensions."""
    return emit(RmsNormOp, input, weight, axis=rank(input) - len(normalized_shape), epsilon=_rms_epsilon(input, eps))


def _rms_epsilon(input: ir.Value, eps: float | None) -> float:
    return float(np.finfo(dtype(input)).eps) if eps is None else eps


@imports("aten._fused_rms_norm.default")
def fused_rms_norm(
    node: AtenNode, input: ir.Value, normalized_shape: Sequence[AtenSize], weight: ir.Value | None, eps: float | None
) -> tuple[ir.Value | None, ...]:
    """RMS norm, and 1 / sqrt(mean(x * x) + eps)."""
    made = rms_norm(node, input, normalized_shape, weight, eps)
    if not node.is_used(1):
        return made, None
    axes = _last_axes(input, normalized_shape)
    square = emit(ReduceMeanOp, emit(ew.MulOp, input, input), axes=axes, keepdims=True)
    return made, reshaped(_inverse_deviation(square, _rms_epsilon(input, eps)), node.shape(1))


@imports("aten.group_norm.default")
def group_norm(
    node: AtenNode,
    input: ir.Value,
    num_groups: int,
    weight: ir.Value | None,
    bias: ir.Value | None,
    eps: float,
) -> ir.Value:
    """Groups of channels, each normalised; then a scale and a bias for each channel."""
    return _grouped(input, num_groups, weight, bias, eps)


@imports("aten.native_group_norm.default")
def native_group_norm(
    node: AtenNode,
    input: ir.Value,
    weight: ir.Value | None,
    bias: ir.Value | None,
    N: AtenSize,
    C: AtenSize,
    HxW: AtenSize,
    group: int,
    eps: float,
) -> tuple[ir.Value | None, ...]:
    """Group norm, and mean and 1 / sqrt(variance + eps) of each group."""
    made = _grouped(input, group, weight, bias, eps)
    return made, *_statistics(node, _by_group(input, group), (2,), eps)


def _by_group(input: ir.Value, groups: int) -> ir.Value:
    return emit(DynamicReshapeOp, input, integers([0, groups, -1]))


def _grouped(input: ir.Value, groups: int, weight: ir.Value | None, bias: ir.Value | None, eps: float) -> ir.Value:
    """[n, c, ...] --> [n, groups, c / groups * ...], normalised along the last --> [n, c, ...]"""
    normal = emit(LayerNormOp, _by_group(input, groups), axis=2, epsilon=eps)
    return _by_channel(reshaped(normal, shape_of(input)), weight, bias)


def _by_channel(value: ir.Value, weight: ir.Value | None, bias: ir.Value | None) -> ir.Value:
    spatial = tuple(range(1, rank(value) - 1))

    def spread(item: ir.Value) -> ir.Value:
        return emit(ExpandDimsOp, item, axes=spatial) if spatial else item

    value = value if weight is None else emit(ew.MulOp, value, spread(cast(weight, dtype(value))))
    return value if bias is None else emit(ew.AddOp, value, spread(cast(bias, dtype(value))))


@imports("aten.instance_norm.default")
def instance_norm(
    node: AtenNode,
    input: ir.Value,
    weight: ir.Value | None,
    bias: ir.Value | None,
    running_mean: ir.Value | None,
    running_var: ir.Value | None,
    use_input_stats: bool,
    eps: float,
) -> ir.Value:
    """Each channel of each image, normalised; then a scale and a bias for each channel."""
    if not use_input_stats:
        assert running_mean is not None and running_var is not None
        return _batch_norm(input, weight, bias, running_mean, running_var, eps)
    return _by_channel(emit(LayerNormOp, input, axis=2, epsilon=eps), weight, bias)


@imports("aten._native_batch_norm_legit_no_training.default")
def batch_norm(
    node: AtenNode,
    input: ir.Value,
    weight: ir.Value | None,
    bias: ir.Value | None,
    running_mean: ir.Value,
    running_var: ir.Value,
    eps: float,
) -> tuple[ir.Value | None, ...]:
    """Batch norm by running statistics; the other results are empty."""
    made = _batch_norm(input, weight, bias, running_mean, running_var, eps)
    empty = [emit(FillOp, integers([0]), value=np.zeros((), node.dtype(index))) for index in (1, 2)]
    return made, *empty


def _batch_norm(
    input: ir.Value,
    weight: ir.Value | None,
    bias: ir.Value | None,
    mean: ir.Value,
    variance: ir.Value,
    eps: float,
) -> ir.Value:
    kind, channels = dtype(input), dims_of(mean, 0, 1)
    scale = emit(FillOp, channels, value=np.ones((), kind)) if weight is None else weight
    shift = emit(FillOp, channels, value=np.zeros((), kind)) if bias is None else bias
    operands = (cast(item, kind) for item in (scale, shift, mean, variance))
    return emit(BatchNormOp, input, *operands, epsilon=eps)


@imports("aten._native_batch_norm_legit.no_stats")
def batch_norm_of_batch(
    node: AtenNode,
    input: ir.Value,
    weight: ir.Value | None,
    bias: ir.Value | None,
    training: bool,
    eps: float,
) -> tuple[ir.Value | None, ...]:
    """Batch norm by the statistics of the batch, and these."""
    if not training:
        raise UnsupportedError("normalises without statistics, which is not supported")
    return _by_batch(node, input, weight, bias, eps)


@imports("aten._native_batch_norm_legit_functional.default")
def batch_norm_in_training(
    node: AtenNode,
    input: ir.Value,
    weight: ir.Value | None,
    bias: ir.Value | None,
    running_mean: ir.Value,
    running_var: ir.Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[ir.Value | None, ...]:
    """Batch norm by the statistics of the batch, these, and the next running statistics."""
    if not training:
        made = _batch_norm(input, weight, bias, running_mean, running_var, eps)
        empty = emit(FillOp, integers([0]), value=np.zeros((), node.dtype(1)))
        return made, empty, empty, running_mean, running_var
    axes, wide = (0, *range(2, rank(input))), _widened(input)
    unbiased, mean = squared_deviation(wide, axes, False, 1)

    def moved(running: ir.Value, now: ir.Value) -> ir.Value:
        kept = emit(ew.MulOp, cast(running, dtype(now)), scalar(1 - momentum, now))
        return emit(ew.AddOp, kept, emit(ew.MulOp, now, scalar(momentum, now)))

    results = _by_batch(node, input, weight, bias, eps)
    following = moved(running_mean, mean), moved(running_var, unbiased)
    return *results, *(cast(value, node.dtype(index)) for index, value in enumerate(following, 3))


def _by_batch(
    node: AtenNode, input: ir.Value, weight: ir.Value | None, bias: ir.Value | None, eps: float
) -> tuple[ir.Value, ...]:
    """Normalises numbers of 16 bits in float32."""
    wide = _widened(input)
    weight, bias = (None if item is None else cast(item, dtype(wide)) for item in (weight, bias))
    axes = (0, *range(2, rank(wide)))
    variance, mean = squared_deviation(wide, axes, True, 0)
    deviation = _inverse_deviation(variance, eps)
    normal = emit(ew.MulOp, emit(ew.SubOp, wide, mean), deviation)
    made = cast(_by_channel(normal, weight, bias), dtype(input))
    statistics = ((mean, 1), (deviation, 2))
    return made, *(cast(reshaped(value, node.shape(index)), node.dtype(index)) for value, index in statistics)


def _widened(value: ir.Value) -> ir.Value:
    return cast(value, np.float32) if dtype(value).itemsize < 4 else value
