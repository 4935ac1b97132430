"""Contractions of 16-bit floats, widened because CPUs multiply 32-bit floats."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise import CastOp
from ....machines.machine import Machine
from ....machines.matrix_units import takes_rows
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..values import dtype_of, is_fixed, static_shape

# Minimum number of rows: with fewer, loading the weight takes most of the time; with more, repeatedly widening each of
# its elements does.
_LEAST_ROWS = 4


@dataclass(frozen=True)
class WidenHalf(Pattern):
    """matmul(x : f16, w : f16) --> cast(matmul(cast(x) : f32, cast(w) : f32)) : f16, for a fixed w; conv likewise

    Kernels accumulate in f32 in any case and round once, so the values do not change. Weights are widened before the
    first run, and activations in the registers of the kernel that computes them. A product of a few rows stays as it
    is, because it then reads half of the bytes, and so does a product of bf16 that a matrix unit computes.
    """

    machine: Machine
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
        if self._is_for_unit(op, math.prod(shape) // columns):
            return Refusal("a matrix unit multiplies pairs of bf16")
        values = [None if value is None else _cast(value, np.dtype(np.float32)) for value in op.operand_values()]
        return _cast(type(op)(*values, **op.attribute_values()).result, dtype)

    def _is_for_unit(self, op: MatmulOp | ConvOp, rows: int) -> bool:
        if dtype_of(op.result) != np.dtype(ml_dtypes.bfloat16) or not takes_rows(self.machine, rows):
            return False
        return isinstance(op, MatmulOp) or op.group == 1


def _cast(value: ir.Value, dtype: np.dtype) -> ir.Value:
    return CastOp(value, dtype=dtype).result
