"""Minimum memory traffic of a kernel in bytes: the elements that its ops access, not whole tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects.core import Op
from ...dialects.registry import view_of
from ...dialects.specs import size_of
from ...dialects.stepwell.contraction import ConvOp
from ...dialects.stepwell.movement import GatherOp, ResizeOp, SliceOp
from ...dialects.stepwell.planar import PlanarConvOp
from ...dialects.stepwell.shape import BorderOp
from ..ir.memory_layout import byte_size


def bytes_moved(group: Sequence[ir.Operation], inputs: Sequence[ir.Value]) -> int:
    """The bytes that one call of a kernel reads from its inputs and writes.

    Args:
        group: ops of the kernel; the last one computes its result.
        inputs: tensors that they read but do not compute.
    """
    written = elements_written(group[-1]) * _width(group[-1].results[0])
    return written + sum(_bytes_read(value, group) for value in inputs)


def elements_written(op: ir.Operation) -> int:
    """The elements that an op writes: all of its result, except that a border omits the inside."""
    result, view = op.results[0], view_of(op)
    if not isinstance(view, BorderOp):
        return size_of(result)
    sides = zip(view.shape, view.low, view.high, strict=True)
    return size_of(result) - math.prod(extent - low - high for extent, low, high in sides)


def _bytes_read(value: ir.Value, group: Sequence[ir.Operation]) -> int:
    """The bytes of a static tensor that ops read."""
    read = [_elements_read(op, index) for op in group for index, item in enumerate(op.operands) if item == value]
    return min(size_of(value), sum(read)) * _width(value)


def _elements_read(op: ir.Operation, index: int) -> int:
    """The elements that an op reads of an operand; for gathers, slices and nearest resizes at most the result's."""
    value, view = op.operands[index], view_of(op)
    whole = size_of(value)
    if index > 0 or view is None:
        return whole
    if isinstance(view, GatherOp | SliceOp) or (isinstance(view, ResizeOp) and view.mode == "nearest"):
        return min(whole, size_of(op.results[0]))
    return whole // _product(_spatial(value, view)) * _covered_positions(view) if _has_windows(view) else whole


def _has_windows(op: Op) -> bool:
    """Returns whether an op reads its operand through windows of a known size, as convolutions and pooling do."""
    return _kernel(op) is not None and op.operation.name != "stepwell.conv_transpose"


def _kernel(op: Op) -> Sequence[int] | None:
    attributes = op.attribute_values()
    if not {"strides", "dilations"} <= attributes.keys():
        return None
    if isinstance(op, ConvOp):
        return list(ir.RankedTensorType(op.weight.type).shape)[2:]
    return attributes.get("kernel")


def _spatial(value: ir.Value, op: Op) -> Sequence[int]:
    """The spatial extents of an image, without batch and channels."""
    shape = list(ir.RankedTensorType(value.type).shape)
    is_first = op.attribute_values().get("layout", "") == "channels_first" or isinstance(op, PlanarConvOp)
    return shape[2:] if is_first else shape[1:-1]


def _covered_positions(op: Op) -> int:
    """The number of positions of an image that some window covers: strides may skip some."""
    attributes, kernel = op.attribute_values(), _kernel(op)
    assert kernel is not None
    extents, results = _spatial(op.operation.operands[0], op), _spatial(op.operation.results[0], op)
    pads = attributes.get("pads") or (0,) * len(extents)
    count = 1
    for axis, (extent, made, size) in enumerate(zip(extents, results, kernel, strict=True)):
        starts = np.arange(made) * attributes["strides"][axis] - pads[axis]
        places = np.unique(starts[:, None] + np.arange(size) * attributes["dilations"][axis])
        count *= int(((places >= 0) & (places < extent)).sum())
    return count


def _product(sizes: Sequence[int]) -> int:
    return max(1, math.prod(sizes))


def _width(value: ir.Value) -> int:
    """The size of an element in bytes."""
    return byte_size(value.type) // max(1, size_of(value))
