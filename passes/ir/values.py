"""Queries on values: shapes of tensors, and integers that are constants."""

from __future__ import annotations

from typing import cast

from mlir import ir
from mlir.dialects import arith

from ...dialects.types import shape_of_type

Shape = tuple[int, ...]


def is_tensor(value: ir.Value) -> bool:
    """Returns whether a value is a ranked tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def shape_of(value: ir.Value) -> Shape:
    """Returns the shape of a ranked tensor; a dynamic dimension is `ir.ShapedType.get_dynamic_size()`.

    If the type names its dynamic dimensions, they are expressions over sizes instead.
    """
    kind = ir.RankedTensorType(value.type)
    return tuple(kind.shape) if kind.encoding is None else cast(Shape, shape_of_type(kind))


def shape_if_tensor(value: ir.Value) -> Shape:
    """Returns the shape of a ranked tensor, and () for values of other types."""
    return shape_of(value) if is_tensor(value) else ()


def element_type_of(value: ir.Value) -> ir.Type:
    """Returns the element type of a ranked tensor."""
    return ir.RankedTensorType(value.type).element_type


def constant_index(value: int) -> ir.Value:
    """Creates a constant of type `index` at the insertion point."""
    return arith.ConstantOp(ir.IndexType.get(), value).result


def integer_of(value: ir.Value) -> int | None:
    """Returns the integer of an `arith.constant`; None for any other value."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return None
    return ir.IntegerAttr(value.owner.attributes["value"]).value


def i64(value: int) -> ir.IntegerAttr:
    """Returns a 64-bit integer as an attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
