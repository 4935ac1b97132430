"""Rows of keys and values as integers of eight bits, with a scale for each row."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ...dialects.stepwell.elementwise import AbsOp, CastOp, DivOp, MaximumOp, MulOp, RoundOp
from ...dialects.stepwell.reduction import ReduceMaxOp
from ..graph.values import dtype_of, scalar_like

_GREATEST = 127
"""Greatest integer: -128 is not used, so that rows and their negatives become negatives of each other."""

_LEAST_SCALE = float(np.finfo(np.float32).tiny)
"""Scale of rows of zeros, by which they can be divided."""


def scales_of(rows: ir.Value, greatest_number: float = _GREATEST) -> ir.Value:
    """Returns the scales of rows [.., depth], f32[.., 1]: the greatest magnitude of each becomes `greatest_number`."""
    greatest = ReduceMaxOp(AbsOp(wide(rows)), axes=(-1,), keepdims=True).result
    scales = MulOp(greatest, scalar_like(1 / greatest_number, greatest)).result
    return MaximumOp(scales, scalar_like(_LEAST_SCALE, scales)).result


def in_int8(rows: ir.Value, scales: ir.Value) -> ir.Value:
    """Returns `round(rows / scales)` as i8."""
    return CastOp(RoundOp(DivOp(wide(rows), scales)), dtype=np.dtype(np.int8)).result


def wide(rows: ir.Value) -> ir.Value:
    """Returns rows as f32."""
    return rows if dtype_of(rows) == np.float32 else CastOp(rows, dtype=np.dtype(np.float32)).result
