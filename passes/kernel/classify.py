"""Kernel class of an op, which selects the fusion rule, the lowering and the schedule."""

from __future__ import annotations

from mlir import ir

from ...dialects.registry import OPS
from ...dialects.specs import size_of
from .views import EXTRACT

ANCHOR_ORDER = (
    "attention",
    "contraction",
    "convolution",
    "winograd",
    "depthwise",
    "pooling",
    "reduction",
    "sorting",
    "selection",
    "cumulative",
    "elementwise",
    "movement",
)
"""The kernel classes in order of priority: ops of earlier classes choose first which other ops they fuse."""


def kernel_class(op: ir.Operation | ir.OpView) -> str | None:
    """Returns the kernel class of an op; None for ops without work (constants, reshapes) and ops of MLIR's dialects."""
    kind = OPS.get(op.operation.name)
    return None if kind is None or kind.KERNEL is None else kind.KERNEL.kind


def works_on_views(op: ir.Operation | ir.OpView) -> bool:
    """Returns whether the kernel of an op reads and writes parts of larger tensors as fast as whole tensors."""
    kind = OPS.get(op.operation.name)
    return op.operation.name == EXTRACT if kind is None else kind.KERNEL is not None and kind.KERNEL.works_on_views


def bytes_of(value: ir.Value) -> int:
    """The size in bytes of a static tensor (a bool takes one byte)."""
    return size_of(value) * max(1, _bits(ir.RankedTensorType(value.type).element_type) // 8)


def _bits(element: ir.Type) -> int:
    return element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
