"""How tensors lie in memory: contiguous, in row-major order, elements in whole bytes and without signs."""

from __future__ import annotations

import math

from mlir import ir

from ..base import PassError


def memref_type(tensor: ir.Type) -> ir.MemRefType:
    """The memory of a tensor. A bool is a byte; what has no elements has one dimension, as `2x0` has no bare pointer.

    Raises:
        PassError: the shape is not static.
    """
    kind = ir.RankedTensorType(tensor)
    if not kind.has_static_shape:
        raise PassError(f"the shape of {kind} is not static")
    element = kind.element_type
    if isinstance(element, ir.IntegerType):
        element = ir.IntegerType.get_signless(max(8, element.width))
    return ir.MemRefType.get([0] if 0 in kind.shape else kind.shape, element)


def byte_size(tensor_or_memref: ir.Type) -> int:
    """How many bytes a tensor or memref takes in memory.

    Raises:
        PassError: the shape is not static.
    """
    kind = ir.ShapedType(tensor_or_memref)
    if not kind.has_static_shape:
        raise PassError(f"the shape of {tensor_or_memref} is not static")
    element = kind.element_type
    width = 64 if isinstance(element, ir.IndexType) else element.width  # pyright: ignore[reportAttributeAccessIssue]
    return math.prod(kind.shape) * -(-width // 8)
