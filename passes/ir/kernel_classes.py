"""Kernel class of an op, which selects the fusion rule, the lowering and the schedule."""

from __future__ import annotations

from mlir import ir

from ...dialects.registry import OPS

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


WITH_EPILOGUES = frozenset({"contraction", "convolution", "winograd", "depthwise", "pooling"})
"""The kernel classes of products and sums over windows, which compute elementwise ops on their sums in registers."""


def kernel_class(op: ir.Operation | ir.OpView) -> str | None:
    """Returns the kernel class of an op; None for ops without work (constants, reshapes) and ops of MLIR's dialects."""
    kind = OPS.get(op.operation.name)
    return None if kind is None or kind.KERNEL is None else kind.KERNEL.kind
