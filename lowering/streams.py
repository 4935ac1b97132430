"""Sizes of tensors and buffers, which decide whether these stay in the caches."""

from __future__ import annotations

import math

from mlir import ir

from ..dialects.types import numpy_dtype


def has_bytes(kind: ir.Type, min_bytes: int) -> bool:
    """Returns whether a tensor or a buffer of static shape has at least `min_bytes` bytes."""
    if not isinstance(kind, ir.RankedTensorType | ir.MemRefType) or not kind.has_static_shape:
        return False
    return math.prod(kind.shape) * numpy_dtype(kind.element_type).itemsize >= min_bytes
