"""Weights of short floats that a model converts to float32 before their product."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ConcatOp, ReshapeOp, TransposeOp
from ....dialects.stepwell.panels import SHORT_FLOATS
from ....machines.machine import Machine
from ...ir.rewriting import defining_op
from ..values import dtype_of, is_fixed


def short_floats_of(value: ir.Value, machine: Machine) -> ir.Value | None:
    """Returns a fixed value before its conversion from short floats to float32.

    Returns None if there is no such conversion, or if the machine has no instructions for it.

    ```mlir
    %0 = "stepwell.cast"(%w) : (tensor<8x4xbf16>) -> tensor<8x4xf32>
    %1 = "stepwell.transpose"(%0) {permutation = array<i64: 1, 0>}
    // --> of %1:
    %2 = "stepwell.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<8x4xbf16>) -> tensor<4x8xbf16>
    ```
    """
    found = _before(value) if dtype_of(value) == np.float32 and is_fixed(value) else None
    return found if found is not None and _converts(machine, dtype_of(found)) else None


def _converts(machine: Machine, dtype: np.dtype) -> bool:
    """Returns whether conversions to float32 take an instruction or two: f16 on x86-64 came with AVX."""
    return dtype != np.float16 or machine.architecture != "x86_64" or machine.vector_bytes > 16


def _before(value: ir.Value) -> ir.Value | None:
    cast = defining_op(value, CastOp)
    if cast is not None:
        return cast.input if dtype_of(cast.input) in SHORT_FLOATS else None
    moved = defining_op(value, TransposeOp) or defining_op(value, ReshapeOp)
    if moved is not None:
        found = _before(moved.input)
        return None if found is None else type(moved)(found, **moved.attribute_values()).result
    joined = defining_op(value, ConcatOp)
    parts = [] if joined is None else [_before(joined.lhs), _before(joined.rhs)]
    short = [part for part in parts if part is not None]
    if joined is None or len(short) < 2 or dtype_of(short[0]) != dtype_of(short[1]):
        return None
    return ConcatOp(*short, **joined.attribute_values()).result
