"""Contractions of bytes: padding of operands before weights are packed, and widening if they cannot be packed."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import PadOp, ReshapeOp
from ....dialects.stepwell.panels import grain_of
from ...ir.rewriting import Pattern, Replacement
from ..values import dtype_of, is_fixed


def sum_bytes(op: MatmulOp | ConvOp) -> int:
    """The size in bytes of an accumulator element; sums of 16-bit floats are f32."""
    return max(4, dtype_of(op.result).itemsize)


def in_whole_grains(value: ir.Value, groups: int = 1, grain: int = 0) -> ir.Value:
    """Pads each of the `groups` equal parts of the last dimension to a multiple of the grain of packed weights.

    The padding is zeros, and so are the corresponding weights.
    """
    grain, shape = grain or grain_of(dtype_of(value)), list(ir.RankedTensorType(value.type).shape)
    missing = -(shape[-1] // groups) % grain
    if not missing:
        return value
    parts = (*shape[:-1], groups, shape[-1] // groups)
    split = ReshapeOp(value, shape=parts).result
    low = (0,) * len(parts)
    padded = PadOp(split, low=low, high=(*low[:-1], missing)).result
    return ReshapeOp(padded, shape=(*shape[:-1], shape[-1] + groups * missing)).result


def must_widen(op: MatmulOp | ConvOp) -> bool:
    """Returns whether the op multiplies bytes that packed kernels do not take (they take ui8 by fixed i8 weights)."""
    value, weight = (op.lhs, op.rhs) if isinstance(op, MatmulOp) else (op.input, op.weight)
    kinds = dtype_of(value), dtype_of(weight)
    return kinds[0].itemsize == 1 and not (kinds == (np.uint8, np.int8) and is_fixed(weight))


class WidenBytes(Pattern[MatmulOp]):
    """matmul(bytes x, bytes y) --> matmul(cast(x), cast(y)) in i32, if they cannot be packed; conv(x, w) likewise"""

    root = (MatmulOp, ConvOp)

    def rewrite(self, op: MatmulOp | ConvOp) -> Replacement:
        if not must_widen(op):
            return None
        one, two, *rest = op.operand_values()
        lhs, rhs = (CastOp(value, dtype=np.dtype(np.int32)).result for value in (one, two) if value is not None)
        return type(op)(lhs, rhs, *rest, **op.attribute_values()).result
