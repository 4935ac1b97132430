"""Pooling."""

from __future__ import annotations

from typing import Any

from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell.pooling import AveragePoolOp, MaxPoolOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceMeanOp
from ..build import emit, rank
from ..node import Node
from ..registry import imports
from ..windows import pads_of, window_of


@imports("MaxPool")
def max_pool(node: Node, input: ir.Value) -> tuple[ir.Value]:
    """MaxPool, without the indices of the maxima."""
    return (_pool(node, MaxPoolOp, input),)


@imports("AveragePool")
def average_pool(node: Node, input: ir.Value) -> ir.Value:
    """AveragePool."""
    return _pool(node, AveragePoolOp, input, count_include_pad=bool(node.attribute("count_include_pad")))


def _pool(node: Node, op: type[Op], input: ir.Value, **attributes: Any) -> ir.Value:
    window = window_of(node, input, node.attribute("kernel_shape"))
    return emit(
        op,
        input,
        kernel=window.kernel,
        strides=window.strides,
        pads=pads_of(node, input, window),
        dilations=window.dilations,
        ceil_mode=bool(node.attribute("ceil_mode", 0)),
        **attributes,
    )


@imports("GlobalAveragePool")
def global_average_pool(node: Node, input: ir.Value) -> ir.Value:
    """GlobalAveragePool: the mean of each channel."""
    return emit(ReduceMeanOp, input, axes=tuple(range(2, rank(input))), keepdims=True)


@imports("GlobalMaxPool")
def global_max_pool(node: Node, input: ir.Value) -> ir.Value:
    """GlobalMaxPool: the maximum of each channel."""
    return emit(ReduceMaxOp, input, axes=tuple(range(2, rank(input))), keepdims=True)
