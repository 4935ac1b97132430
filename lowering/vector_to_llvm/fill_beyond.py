"""Writes zeros where a kernel's result is needed beyond the data."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, memref, scf, vector

from ...machines.families import WIDEST_VECTOR_BYTES
from ...passes.ir.values import constant_index

_LANES = WIDEST_VECTOR_BYTES // 4
"""Zeros of a 32-bit type that are stored at once."""


def fill_beyond(destination: ir.Value, ends: Sequence[ir.Value | None], needed: Sequence[ir.Value | None]) -> None:
    """Writes zeros to the needed part of a tensor that is beyond its end along some dimension.

    Args:
        destination: the tensor.
        ends: per dimension, the end of the data; None if all of it is data.
        needed: per dimension, the number of needed elements; None for all.
    """
    kind = ir.MemRefType(destination.type)
    whole = [constant_index(size) for size in kind.shape]
    most = [
        size if count is None else arith.MinSIOp(size, count).result for size, count in zip(whole, needed, strict=True)
    ]
    inside = [count if end is None else arith.MinSIOp(count, end).result for count, end in zip(most, ends, strict=True)]
    for axis, end in enumerate(ends):
        if end is not None and end is not needed[axis]:
            bounds = [*((None, last) for last in inside[:axis]), (inside[axis], most[axis])]
            bounds += [(None, last) for last in most[axis + 1 :]]
            is_row = axis < kind.rank - 1 and needed[-1] is None
            _fill(destination, bounds, [], is_row)


def _fill(
    destination: ir.Value, bounds: Sequence[tuple[ir.Value | None, ir.Value]], indices: list[ir.Value], is_row: bool
) -> None:
    """Emits loops between bounds (from 0 on if there is no first one), the innermost over whole rows."""
    kind = ir.MemRefType(destination.type)
    axis = len(indices)
    if axis == kind.rank:
        zero = arith.constant(kind.element_type, _zero(kind.element_type))
        memref.StoreOp(zero, destination, indices)
        return
    if is_row and axis == kind.rank - 1:
        _fill_row(destination, indices)
        return
    first, last = bounds[axis]
    if first is None and kind.shape[axis] == 1:
        _fill(destination, bounds, [*indices, constant_index(0)], is_row)
        return
    loop = scf.ForOp(constant_index(0) if first is None else first, last, constant_index(1))
    with ir.InsertionPoint(loop.body):
        _fill(destination, bounds, [*indices, loop.induction_variable], is_row)
        scf.YieldOp([])


def _fill_row(destination: ir.Value, indices: Sequence[ir.Value]) -> None:
    size = ir.MemRefType(destination.type).shape[-1]
    whole = size - size % _LANES
    if whole:
        loop = scf.ForOp(constant_index(0), constant_index(whole), constant_index(_LANES))
        with ir.InsertionPoint(loop.body):
            _store_zeros(destination, [*indices, loop.induction_variable], _LANES)
            scf.YieldOp([])
    rest = size - whole
    if rest:
        _store_zeros(destination, [*indices, constant_index(whole)], rest)


def _store_zeros(destination: ir.Value, indices: Sequence[ir.Value], lanes: int) -> None:
    element = ir.MemRefType(destination.type).element_type
    kind = ir.VectorType.get([lanes], element)
    zeros = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, _zero(element)))
    vector.StoreOp(zeros, destination, indices)


def _zero(element: ir.Type) -> ir.Attribute:
    return ir.IntegerAttr.get(element, 0) if isinstance(element, ir.IntegerType) else ir.FloatAttr.get(element, 0.0)
