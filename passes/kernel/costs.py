"""Floating-point operations of ops: the interface `FLOPS`, and its implementations for the ops of this dialect."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mlir import ir

from ...dialects.core import Op
from ...dialects.interfaces import Interface
from ...dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ...dialects.stepwell.cumulative import CumulativeOp
from ...dialects.stepwell.elementwise import ElementwiseOp
from ...dialects.stepwell.movement import ResampleOp
from ...dialects.stepwell.normalization import (
    AttentionOp,
    BatchNormOp,
    LayerNormOp,
    LocalResponseNormOp,
    LogSoftmaxOp,
    RmsNormOp,
    SoftmaxOp,
)
from ...dialects.stepwell.packed import (
    PackedConvOp,
    PackedDepthwiseConvOp,
    PackedGroupedConvOp,
    PackedMatmulOp,
)
from ...dialects.stepwell.planar import PlanarConvOp
from ...dialects.stepwell.pooling import PoolOp
from ...dialects.stepwell.reduction import ArgmaxOp, ReductionOp
from ...dialects.stepwell.sorting import TopKOp
from ...dialects.stepwell.winograd import WinogradConvOp
from ..ir.values import size_of

FLOPS = Interface[Callable[[Any], int]](
    "flops", "number of floating-point operations, from static shapes", rooms=("passes.kernel.costs",)
)


def flops(op: Op) -> int:
    """Returns the floating-point operations of one op, two per multiply-add; 0 for ops that only move data."""
    count = FLOPS.of(type(op))
    return 0 if count is None else count(op)


@FLOPS.attach(ElementwiseOp, CumulativeOp)
def _one_per_result(op: Op) -> int:
    return size_of(op.operation.results[0])


@FLOPS.attach(
    ReductionOp,
    ArgmaxOp,
    SoftmaxOp,
    LogSoftmaxOp,
    LayerNormOp,
    RmsNormOp,
    BatchNormOp,
    LocalResponseNormOp,
    PoolOp,
    ResampleOp,
)
def _one_per_input(op: Op) -> int:
    return size_of(op.operation.operands[0])


@FLOPS.attach(PlanarConvOp)
def _planar_convolution(op: PlanarConvOp) -> int:
    return 2 * size_of(op.result) * math.prod(op.kernel)


@FLOPS.attach(WinogradConvOp)
def _winograd(op: WinogradConvOp) -> int:
    """Each tile of the result is multiplied once by every transformed weight."""
    batch, height, width, _ = ir.RankedTensorType(op.result.type).shape
    tiles = batch * -(-height // op.tile) * -(-width // op.tile)
    return 2 * tiles * size_of(op.weight)


@FLOPS.attach(MatmulOp)
def _matmul(op: MatmulOp) -> int:
    depth = ir.RankedTensorType(op.lhs.type).shape[-2 if op.transpose_lhs else -1]
    return 2 * size_of(op.result) * depth


@FLOPS.attach(PackedMatmulOp)
def _packed_matmul(op: PackedMatmulOp) -> int:
    return 2 * size_of(op.result) * ir.RankedTensorType(op.input.type).shape[-1]


@FLOPS.attach(ConvOp, PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp)
def _convolution(op: Op) -> int:
    """Each weight is multiplied once per output position."""
    return _per_position(op, op.operation.results[0])


@FLOPS.attach(ConvTransposeOp)
def _transposed_convolution(op: Op) -> int:
    """Each weight is multiplied once per input position."""
    return _per_position(op, op.operation.operands[0])


def _per_position(op: Op, positions: ir.Value) -> int:
    is_channels_last = op.attribute_values().get("layout", "channels_last") == "channels_last"
    channels = ir.RankedTensorType(positions.type).shape[-1 if is_channels_last else 1]
    return 2 * (size_of(positions) // channels * size_of(op.operation.operands[1]))


@FLOPS.attach(AttentionOp)
def _attention(op: AttentionOp) -> int:
    query, key, value = (ir.RankedTensorType(item.type).shape for item in (op.query, op.key, op.value))
    return 2 * math.prod(query[:3]) * key[2] * (query[3] + value[3])


@FLOPS.attach(TopKOp)
def _sort(op: TopKOp) -> int:
    """Number of comparisons of a sort: n log n."""
    return size_of(op.input) * ir.RankedTensorType(op.input.type).shape[-1].bit_length()
