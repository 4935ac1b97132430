"""Builds linalg.generic ops from Python functions over scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, linalg


def generic(
    inputs: Sequence[ir.Value],
    out: ir.Value,
    maps: Sequence[ir.AffineMap],
    parallel: int,
    body: Callable[..., ir.Value],
) -> linalg.GenericOp:
    """Makes a linalg.generic with one result at the insertion point.

    Args:
        inputs: tensors that are read.
        out: the destination; also the accumulator of reductions.
        maps: one per input, and that of `out`.
        parallel: number of leading parallel dimensions; those after them are reduced.
        body: takes one scalar per input and the scalar of `out`, and returns the new scalar of `out`.
    """
    kinds = ["parallel"] * parallel + ["reduction"] * (maps[0].n_dims - parallel)
    iterators = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])
    indexing = ir.ArrayAttr.get([ir.AffineMapAttr.get(item) for item in maps])
    op = linalg.GenericOp([out.type], inputs, [out], indexing, iterators)
    elements = [ir.RankedTensorType(value.type).element_type for value in (*inputs, out)]
    block = op.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(*block.arguments)])
    return op


def constant(value: ir.Attribute) -> ir.Value:
    """Makes an arith.constant of the attribute's type."""
    return arith.constant(value.type, value)


def splat(number: float, kind: ir.Type) -> ir.Value:
    """Makes a constant of a vector type with one number in all lanes."""
    element = ir.VectorType(kind).element_type
    is_float = isinstance(element, ir.FloatType)
    value = ir.FloatAttr.get(element, float(number)) if is_float else ir.IntegerAttr.get(element, int(number))
    return constant(ir.DenseElementsAttr.get_splat(kind, value))


def zero_of(element: ir.Type) -> ir.Attribute:
    """Returns zero as an attribute of an element type."""
    if isinstance(element, ir.FloatType):
        return ir.FloatAttr.get(element, 0.0)
    return ir.IntegerAttr.get(element, 0)


def multiply_add(lhs: ir.Value, rhs: ir.Value, total: ir.Value) -> ir.Value:
    """Emits `total + lhs * rhs`; for floats, LLVM may contract it into one rounding.

    Factors shorter than the total are extended first; bytes on the left are unsigned.
    """
    if lhs.type != total.type and isinstance(lhs.type, ir.IntegerType):
        lhs, rhs = arith.extui(total.type, lhs), arith.extsi(total.type, rhs)
    else:
        lhs, rhs = (value if value.type == total.type else arith.extf(total.type, value) for value in (lhs, rhs))
    if isinstance(lhs.type, ir.IntegerType):
        return arith.addi(total, arith.muli(lhs, rhs))
    contract = ir.Attribute.parse("#arith.fastmath<contract>")
    return arith.addf(total, arith.mulf(lhs, rhs, fastmath=contract), fastmath=contract)
