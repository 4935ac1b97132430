"""Scalars of loops, such as the number of an iteration, as tensors of rank 0."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, tensor

from ..ir.values import is_tensor


def as_tensor_type(kind: ir.Type) -> ir.Type:
    """Returns the type of a tensor of one scalar; i64 for an index."""
    if isinstance(kind, ir.RankedTensorType):
        return kind
    return ir.RankedTensorType.get([], _i64() if isinstance(kind, ir.IndexType) else kind)


def as_tensor(value: ir.Value) -> ir.Value:
    """Returns a scalar as a tensor of rank 0; a tensor stays as it is."""
    if is_tensor(value):
        return value
    kind = as_tensor_type(value.type)
    scalar = arith.IndexCastOp(_i64(), value).result if isinstance(value.type, ir.IndexType) else value
    return tensor.FromElementsOp(kind, [scalar]).result


def of_type(value: ir.Value, kind: ir.Type) -> ir.Value:
    """The inverse of `as_tensor`."""
    if isinstance(kind, ir.RankedTensorType):
        return value
    scalar = tensor.ExtractOp(value, []).result
    return arith.IndexCastOp(kind, scalar).result if isinstance(kind, ir.IndexType) else scalar


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)
