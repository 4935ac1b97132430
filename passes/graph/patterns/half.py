"""Contractions of 16-bit floats, widened because CPUs multiply 32-bit floats."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise import CastOp
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..values import dtype_of, is_fixed, static_shape

# Minimum number of rows: with fewer, loading the weight takes most of the time; with more, repeatedly widening each of
# its elements does.
_LEAST_ROWS = 4


class WidenHalf(Pattern):
    """matmul(x : f16, w : f16) --> cast(matmul(cast(x) : f32, cast(w) : f32)) : f16, for a fixed w; conv likewise

    Kernels accumulate in f32 in any case and round once, so the values do not change. Weights are widened before the
    first run, and activations in the registers of the kernel that computes them. A product of a few rows stays as it
    is, because it then reads half of the bytes.
    """

    root = (MatmulOp, ConvOp)

    def rewrite(self, op: MatmulOp | ConvOp) -> Replacement:
        dtype, shape = dtype_of(op.result), static_shape(op.result)
        if dtype.name not in ("float16", "bfloat16"):
            return None
        if shape is None or not is_fixed(op.rhs if isinstance(op, MatmulOp) else op.weight):
            return Refusal("the right-hand side is not a weight of known shape")
        columns = shape[1] if isinstance(op, ConvOp) and op.layout == "channels_first" else shape[-1]
        if math.prod(shape) < _LEAST_ROWS * columns:
            return Refusal("it has so few rows that loading the weight takes longer than widening it")
        values = [None if value is None else _cast(value, np.dtype(np.float32)) for value in op.operand_values()]
        return _cast(type(op)(*values, **op.attribute_values()).result, dtype)


def _cast(value: ir.Value, dtype: np.dtype) -> ir.Value:
    return CastOp(value, dtype=dtype).result
