"""Products of bytes: what is done to operands before their weights are packed, and where they are not packed at all."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ...dialects.stepwell.contraction import ConvOp, MatmulOp
from ...dialects.stepwell.elementwise.logic import CastOp
from ...dialects.stepwell.movement import PadOp, ReshapeOp
from ...dialects.stepwell.packed import grain_of
from ..rewriting import Pattern, Replacement
from .values import dtype_of, is_fixed


def sum_bytes(op: MatmulOp | ConvOp) -> int:
    """The bytes of the sums of products: those of short floats are f32."""
    return max(4, dtype_of(op.result).itemsize)


def in_whole_grains(value: ir.Value, groups: int = 1) -> ir.Value:
    """A tensor whose last dimension, in each of `groups` parts of it, is so long that bytes come in whole grains.

    What is added are zeros, and so are the weights that they meet.
    """
    grain, shape = grain_of(dtype_of(value)), list(ir.RankedTensorType(value.type).shape)
    missing = -(shape[-1] // groups) % grain
    if not missing:
        return value
    parts = (*shape[:-1], groups, shape[-1] // groups)
    split = ReshapeOp(value, shape=parts).result
    low = (0,) * len(parts)
    padded = PadOp(split, low=low, high=(*low[:-1], missing)).result
    return ReshapeOp(padded, shape=(*shape[:-1], shape[-1] + groups * missing)).result


class WidenBytes(Pattern[MatmulOp]):
    """matmul(bytes x, bytes y) --> matmul(cast(x), cast(y)) in i32, where y is another one in every run"""

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        if dtype_of(op.lhs).itemsize > 1 or is_fixed(op.rhs):
            return None
        lhs, rhs = (CastOp(value, dtype=np.dtype(np.int32)).result for value in (op.lhs, op.rhs))
        return MatmulOp(lhs, rhs, transpose_lhs=op.transpose_lhs, transpose_rhs=op.transpose_rhs).result
