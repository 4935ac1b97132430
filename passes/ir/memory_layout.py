"""Memory layout of tensors: contiguous and row-major, with elements of whole bytes and signless types."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from ..infra.base import PassError


def memref_type(tensor: ir.Type) -> ir.MemRefType:
    """The memref of a tensor. Bools take a byte; empty tensors get one dimension, as `2x0` has no bare pointer.

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


def strided_type(tensor: ir.Type, strides: Sequence[int] | None) -> ir.MemRefType:
    """The memref of a tensor with these strides in elements; contiguous if None."""
    kind = memref_type(tensor)
    return (
        kind
        if strides is None
        else ir.MemRefType.get(kind.shape, kind.element_type, ir.StridedLayoutAttr.get(0, strides))
    )


def byte_size(tensor_or_memref: ir.Type) -> int:
    """The size of a tensor or memref in bytes.

    Raises:
        PassError: the shape is not static.
    """
    kind = ir.ShapedType(tensor_or_memref)
    if not kind.has_static_shape:
        raise PassError(f"the shape of {tensor_or_memref} is not static")
    return math.prod(kind.shape) * element_bytes(kind)


def element_bytes(tensor_or_memref: ir.Type) -> int:
    """The size of an element in bytes."""
    element = ir.ShapedType(tensor_or_memref).element_type
    width = 64 if isinstance(element, ir.IndexType) else element.width  # pyright: ignore[reportAttributeAccessIssue]
    return -(-width // 8)
