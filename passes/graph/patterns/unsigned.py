"""Contractions of unsigned integers, done on signed ones because both wrap around the same way."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ....dialects.stepwell.elementwise import BitcastOp
from ...ir.rewriting import Pattern, Replacement
from ..values import dtype_of


class SignContraction(Pattern):
    """Reinterprets the operands of contractions of unsigned integers as signed ones.

    matmul(x : ui32, y : ui32) --> bitcast(matmul(bitcast(x) : i32, bitcast(y) : i32)) : ui32
    """

    root = (MatmulOp, ConvOp, ConvTransposeOp)

    def rewrite(self, op: MatmulOp | ConvOp | ConvTransposeOp) -> Replacement:
        dtype = dtype_of(op.result)
        if not np.issubdtype(dtype, np.unsignedinteger):
            return None
        signed = np.dtype(f"int{8 * dtype.itemsize}")
        values = [None if value is None else _cast(value, signed) for value in op.operand_values()]
        return _cast(type(op)(*values, **op.attribute_values()).result, dtype)


def _cast(value: ir.Value, dtype: np.dtype) -> ir.Value:
    return BitcastOp(value, dtype=dtype).result
