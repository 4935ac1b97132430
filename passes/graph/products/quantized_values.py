"""Analysis of quantised values: the bytes, zero point and scale from which a value of the graph is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell.constant import ParameterOp
from ....dialects.stepwell.elementwise import MulOp, SubOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import (
    DynamicReshapeOp,
    DynamicSliceOp,
    ExpandDimsOp,
    ReshapeOp,
    SliceOp,
    SqueezeOp,
    TransposeOp,
)
from ....dialects.stepwell.shapes import BYTES
from ....runtime.remarks import NOT_QUANTIZED
from ...ir.rewriting import defining_op
from ..values import constant_of, dtype_of, rank_of, static_shape

_WIDENED = {
    np.dtype(ml_dtypes.int4): np.dtype(np.int8),
    np.dtype(ml_dtypes.uint4): np.dtype(np.uint8),
    np.dtype(ml_dtypes.int2): np.dtype(np.int8),
    np.dtype(ml_dtypes.uint2): np.dtype(np.uint8),
}
"""Integers of fewer bits than a byte, by the type of bytes that holds them."""

_MOVES = (ReshapeOp, DynamicReshapeOp, TransposeOp, ExpandDimsOp, SqueezeOp, SliceOp, DynamicSliceOp)
_VIEWS = (CastOp, ExpandDimsOp, ReshapeOp, SqueezeOp)


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Quantized:
    """Integers minus their zero point, and times their scale if there is one: `move((numbers - zero) * scale)`.

    Attributes:
        numbers: the integers.
        zero: their zero point, of any integer type; it broadcasts with them. None for 0.
        scale: their scale, which broadcasts with them. None for integers.
        moves: ops that only move the elements, from the last to the first. Unless all are transposes, zero point and
            scale are single values.
    """

    numbers: ir.Value
    zero: ir.Value | None
    scale: ir.Value | None = None
    moves: tuple[Op, ...] = ()

    @property
    def dtype(self) -> np.dtype:
        """The type of bytes that holds the integers; their own type if they do not fit into bytes."""
        kind = dtype_of(self.numbers)
        return _WIDENED.get(kind, kind)

    @property
    def is_bytes(self) -> bool:
        """Returns whether the integers fit into bytes."""
        return self.dtype in BYTES

    def moved(self) -> ir.Value:
        """The integers, as bytes if they fit, with the moves applied."""
        value = self.numbers
        if dtype_of(value) != self.dtype:
            value = CastOp(value, dtype=self.dtype).result
        for op in reversed(self.moves):
            others = op.operand_values()[1:]
            value = type(op)(value, *others, **op.attribute_values()).operation.results[0]
        return value

    def spread_shape(self, values: ir.Value | None) -> Shape:
        """The shape of the zero point or scale, with the moves applied; of the rank of the integers unless it is one.

        The shape must be static.
        """
        if is_one(values):
            return ()
        assert values is not None
        shape = static_shape(values)
        assert shape is not None, "is_one asked for it"
        shape = (*[1] * (rank_of(self.numbers) - len(shape)), *shape)
        for op in reversed(self.moves):
            shape = tuple(shape[axis] for axis in op.attribute_values()["permutation"])
        return shape


def integers_of(value: ir.Value) -> Quantized | None:
    """The integers that a value of i32 was widened from: `cast(numbers)` or `cast(numbers) - zero`, moved or not."""
    return _through_moves(value, _integers)


def dequantized(value: ir.Value) -> Quantized | None:
    """The integers that a float value was dequantised from: `cast(integers) * scale`, moved or not."""
    return _through_moves(value, _scaled)


def _integers(value: ir.Value) -> Quantized | None:
    beyond = defining_op(value, SubOp)
    wide = defining_op(value if beyond is None else beyond.lhs, CastOp)
    if wide is None or dtype_of(value).kind not in "iu" or not _is_spread(wide.input, value):
        return None
    return Quantized(wide.input, None if beyond is None else beyond.rhs)


_NARROW = {"int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16"}


def _scaled(value: ir.Value) -> Quantized | None:
    last = defining_op(value, CastOp)
    product = defining_op(value if last is None else last.input, MulOp)
    if product is None:
        return None
    wide = defining_op(product.lhs, CastOp)
    if wide is None or dtype_of(product.rhs) != np.float32:
        return None
    plain = Quantized(wide.input, None) if _is_spread(wide.input, value) else None
    found = _integers(wide.input) or plain
    return None if found is None or not _is_spread(found.numbers, value) else replace(found, scale=product.rhs)


def _is_spread(numbers: ir.Value, value: ir.Value) -> bool:
    """Returns whether narrow integers have the shape of a value: zero points and scales may not enlarge it."""
    one, other = ir.RankedTensorType(numbers.type), ir.RankedTensorType(value.type)
    return dtype_of(numbers).name in _NARROW and (one.shape, one.encoding) == (other.shape, other.encoding)


def _through_moves(value: ir.Value, read: Callable[[ir.Value], Quantized | None]) -> Quantized | None:
    moves: list[Op] = []
    while (found := read(value)) is None:
        move = next((op for kind in _MOVES if (op := defining_op(value, kind)) is not None), None)
        if move is None:
            return None
        moves.append(move)
        value = move.operation.operands[0]
    is_single = is_one(found.zero) and is_one(found.scale)
    if not is_single and not all(isinstance(move, TransposeOp) for move in moves):
        return None
    return replace(found, moves=tuple(moves))


def is_one(value: ir.Value | None) -> bool:
    """Returns whether scales or zero points are a single value for the whole tensor."""
    shape = () if value is None else static_shape(value)
    return shape is not None and all(dim == 1 for dim in shape)


def contents_of(value: ir.Value | None, parameters: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The contents of a zero point in some shape; 0 for no zero point, None for unknown contents."""
    if value is None:
        return np.zeros((), np.int32)
    while (contents := _stored(value, parameters)) is None:
        view = next((op for kind in _VIEWS if (op := defining_op(value, kind)) is not None), None)
        if view is None:
            return None
        value = view.operation.operands[0]
    return contents


def _stored(value: ir.Value, parameters: Mapping[str, np.ndarray]) -> np.ndarray | None:
    parameter = defining_op(value, ParameterOp)
    return constant_of(value) if parameter is None else parameters.get(parameter.name)


def obstacle_of(value: ir.Value) -> str:
    """The reason why a value is not taken for a dequantised one."""
    steps, start = 0, value
    while steps < _FAR:
        found = dequantized(value)
        if found is not None:
            if steps == 0:
                return f"has {found.dtype.name} numbers, not bytes" if not found.is_bytes else ""
            return f"is computed by {start.owner.name} after the dequantisation"
        if isinstance(value.owner, ir.Block) or len(value.owner.operands) == 0:
            break
        value, steps = value.owner.operands[0], steps + 1
    return f"is {dtype_of(start).name} {NOT_QUANTIZED}"


_FAR = 4
"""Maximum number of ops between a dequantisation and a product that `obstacle_of` looks through."""
