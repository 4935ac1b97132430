"""Image-wise ops: those that compute each image of a batch from the same image of their operands alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from mlir import ir

from ...dialects.core import Op
from ...dialects.interfaces import Interface
from ...dialects.registry import view_of
from ...dialects.stepwell.elementwise import ElementwiseOp
from ...dialects.stepwell.movement import ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from ...dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp
from ...dialects.stepwell.planar import PlanarConvOp
from ...dialects.stepwell.pooling import AveragePoolOp, MaxPoolOp, SumPoolOp
from ...dialects.stepwell.reduction import ReductionOp
from ...dialects.stepwell.winograd import WinogradConvOp
from ..ir.values import shape_if_tensor

Attributes = dict[str, Any]
"""The attributes of an op that change when it computes one image."""

_Rule = Callable[[Any, Collection[ir.Value], int], Attributes | None]
IMAGE_WISE = Interface[_Rule](
    "image-wise", "attributes for one image, if images are computed separately", rooms=("passes.kernel.image_wise",)
)


def for_one_image(op: ir.Operation, images: Collection[ir.Value], batch: int) -> Attributes | None:
    """Checks that an op computes each image of its result from the same image of its operands.

    Args:
        op: op with some operand in `images`.
        images: tensors whose first dimension is the batch.
        batch: number of images.

    Returns:
        The attributes that change when the op computes one image; None if the op is not image-wise.
    """
    view = view_of(op)
    if view is None or len(op.results) != 1 or shape_if_tensor(op.results[0])[:1] != (batch,):
        return None
    rule = IMAGE_WISE.of(type(view))
    return None if rule is None else rule(view, images, batch)


def _lines_up(value: ir.Value, is_images: bool, rank: int, batch: int) -> bool:
    """Returns whether an elementwise operand has the batch as its first dimension, or is shared by all images."""
    shape = shape_if_tensor(value)
    return (len(shape) == rank and shape[0] == batch) if is_images else (len(shape) < rank or shape[0] == 1)


@IMAGE_WISE.attach(ElementwiseOp)
def _elementwise(op: ElementwiseOp, images: Collection[ir.Value], batch: int) -> Attributes | None:
    rank = len(shape_if_tensor(op.operation.results[0]))
    return {} if all(_lines_up(value, value in images, rank, batch) for value in op.operation.operands) else None


@IMAGE_WISE.attach(ConcatOp)
def _concat(op: ConcatOp, images: Collection[ir.Value], batch: int) -> Attributes | None:
    axis = op.axis % len(shape_if_tensor(op.result))
    return {} if axis and all(value in images for value in op.operation.operands) else None


def _of_first_operand(rule: Callable[[Any], Attributes | None]) -> _Rule:
    """Limits a rule to ops whose first operand alone holds images; all images share the other operands."""

    def limited(op: Op, images: Collection[ir.Value], batch: int) -> Attributes | None:
        first, *others = op.operation.operands
        return rule(op) if first in images and not any(value in images for value in others) else None

    return limited


@IMAGE_WISE.attach(
    PackedConvOp,
    PackedDepthwiseConvOp,
    PackedGroupedConvOp,
    PlanarConvOp,
    WinogradConvOp,
    AveragePoolOp,
    MaxPoolOp,
    SumPoolOp,
)
@_of_first_operand
def _windows(op: Op) -> Attributes | None:
    return {}


@IMAGE_WISE.attach(PadOp)
@_of_first_operand
def _pad(op: PadOp) -> Attributes | None:
    return {} if op.low[0] == op.high[0] == 0 else None


@IMAGE_WISE.attach(TransposeOp)
@_of_first_operand
def _transpose(op: TransposeOp) -> Attributes | None:
    return {} if op.permutation[0] == 0 else None


@IMAGE_WISE.attach(ReductionOp)
@_of_first_operand
def _reduction(op: ReductionOp) -> Attributes | None:
    rank = len(shape_if_tensor(op.input))
    return {} if all(axis % rank for axis in op.axes) else None


@IMAGE_WISE.attach(PackedMatmulOp)
@_of_first_operand
def _matmul(op: PackedMatmulOp) -> Attributes | None:
    return {} if op.batch == 1 and len(shape_if_tensor(op.input)) > 1 else None


@IMAGE_WISE.attach(SliceOp)
@_of_first_operand
def _slice(op: SliceOp) -> Attributes | None:
    return {"stops": (1, *op.stops[1:])} if shape_if_tensor(op.input)[0] == shape_if_tensor(op.result)[0] else None


@IMAGE_WISE.attach(ReshapeOp)
@_of_first_operand
def _reshape(op: ReshapeOp) -> Attributes | None:
    return {"shape": (1, *op.shape[1:])}
