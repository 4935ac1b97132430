"""Queries on values for graph passes: shapes, constant contents, and whether a value is fixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from mlir import ir

from ...dialects.core import spec_of
from ...dialects.dims import Dim, is_known
from ...dialects.stepwell.constant import ConstantOp, ParameterOp
from ...dialects.stepwell.shape import RangeOp, SizesOp
from ...dialects.types import array_of, numpy_dtype, shape_of_type
from ..ir.rewriting import defining_op
from ..ir.values import Shape

_INDEX = np.dtype(np.int64)


def rank_of(value: ir.Value) -> int:
    """The number of dimensions of a tensor."""
    return ir.RankedTensorType(value.type).rank


def static_shape(value: ir.Value) -> Shape | None:
    """The shape of a tensor, None if a dimension is unknown.

    Dimensions that are expressions over sizes support arithmetic and comparisons like integers. A comparison whose
    result depends on the sizes raises `UndecidedError`; the pattern then does not match.
    """
    kind = ir.RankedTensorType(value.type)
    if kind.has_static_shape:
        return tuple(kind.shape)
    if kind.encoding is None:
        return None
    shape = shape_of_type(kind)
    return cast(Shape, shape) if all(map(is_known, shape)) else None


def static_shapes(*values: ir.Value) -> list[Shape] | None:
    """The shapes of several tensors, None if a dimension is dynamic."""
    shapes = [static_shape(value) for value in values]
    known = [shape for shape in shapes if shape is not None]
    return known if len(known) == len(shapes) else None


def dtype_of(value: ir.Value) -> np.dtype:
    """The element type of a tensor."""
    return numpy_dtype(ir.RankedTensorType(value.type).element_type)


def is_float(value: ir.Value) -> bool:
    """Returns whether a tensor's elements are floating point."""
    return isinstance(ir.RankedTensorType(value.type).element_type, ir.FloatType)


def constant_of(value: ir.Value | None) -> np.ndarray | None:
    """The contents of a `stepwell.constant`, None for any other value; a splat is a broadcast view."""
    op = defining_op(value, ConstantOp)
    return None if op is None else array_of(op.operation.attributes["value"])


def numbers_of(value: ir.Value | None) -> np.ndarray | None:
    """The contents of a `stepwell.constant`, or the expressions of a `stepwell.sizes`; None for any other value."""
    sizes = defining_op(value, SizesOp)
    return constant_of(value) if sizes is None else spec_of(sizes.result).symbols


def splat_of(value: ir.Value | None) -> float | int | bool | None:
    """The number that all elements of a constant equal, None if there is none."""
    op = defining_op(value, ConstantOp)
    if op is None:
        return None
    attr = ir.DenseElementsAttr(op.operation.attributes["value"])
    if not attr.is_splat:
        return None
    element = attr.get_splat_value()
    return element.value if isinstance(element, ir.FloatAttr) else array_of(attr).flat[0].item()


def constant(array: np.ndarray) -> ir.Value:
    """A new `stepwell.constant` at the insertion point; equal elements are stored once."""
    array = np.asarray(array)
    if array.size > 1 and (array == array.flat[0]).all():
        return splat_constant(array.flat[0], array.shape)
    return ConstantOp(value=array).result


def dimension(dim: Dim) -> ir.Value:
    """A dimension as a scalar; i64."""
    if isinstance(dim, int):
        return constant(np.array(dim, _INDEX))
    return SizesOp.of_contents(np.array(dim, object), _INDEX).result


def numbered(count: Dim) -> ir.Value:
    """The integers 0, 1, .. below a dimension; i64."""
    if isinstance(count, int):
        return constant(np.arange(count))
    return RangeOp(dimension(0), dimension(count), dimension(1)).result


def splat_constant(element: np.generic, shape: Sequence[int]) -> ir.Value:
    """A new `stepwell.constant` of any size whose elements all equal `element`."""
    return ConstantOp(value=np.broadcast_to(element, tuple(shape))).result


def scalar_like(number: float, value: ir.Value) -> ir.Value:
    """A new rank-0 constant of the element type of `value`."""
    return constant(np.array(number, dtype_of(value)))


MAX_EXPRESSION = 64
"""Maximum number of ops of an expression that `is_fixed` walks; larger ones are mostly deep chains of activations."""


def is_fixed(value: ir.Value) -> bool:
    """Returns whether a value is the same in every run: a parameter, a constant, or computed from a few of these."""
    pending, seen = [value], set()
    while pending:
        if len(seen) > MAX_EXPRESSION:
            return False
        value = pending.pop()
        owner = value.owner
        if isinstance(owner, ir.Block) or not owner.name.startswith("stepwell."):
            return False
        if value not in seen:
            seen.add(value)
            pending.extend(owner.operands)
    return True


def is_literal(value: ir.Value) -> bool:
    """Returns whether a value is itself a parameter or a constant."""
    return defining_op(value, ParameterOp) is not None or defining_op(value, ConstantOp) is not None
