"""What is far larger than the caches, so that it passes through them without being there when it is needed again."""

from __future__ import annotations

import math

from mlir import ir

from ..dialects.types import numpy_dtype

STREAM_BYTES = 24 << 20
"""Less is in the last cache still when the next kernel reads it, and comes from there faster than from memory."""


def is_stream(kind: ir.Type, min_bytes: int = STREAM_BYTES) -> bool:
    """Whether a tensor or a buffer of known shape has at least so many bytes."""
    if not isinstance(kind, ir.RankedTensorType | ir.MemRefType) or not kind.has_static_shape:
        return False
    return math.prod(kind.shape) * numpy_dtype(kind.element_type).itemsize >= min_bytes
