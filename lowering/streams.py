"""Streams: tensors far larger than the caches, which are evicted before they are used again."""

from __future__ import annotations

import math

from mlir import ir

from ..dialects.types import numpy_dtype

STREAM_BYTES = 24 << 20
"""Minimum size of a stream in bytes.

Less is still in the last-level cache when the next kernel reads it, which is faster than reading memory.
"""


def is_stream(kind: ir.Type, min_bytes: int = STREAM_BYTES) -> bool:
    """Returns whether a tensor or a buffer of static shape has at least `min_bytes` bytes."""
    if not isinstance(kind, ir.RankedTensorType | ir.MemRefType) or not kind.has_static_shape:
        return False
    return math.prod(kind.shape) * numpy_dtype(kind.element_type).itemsize >= min_bytes
