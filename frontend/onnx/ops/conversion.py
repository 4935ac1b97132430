"""Conversions of element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.types import is_float, is_tiny_float
from ...build import cast, dtype, emit, scalar
from ...errors import AttributeFault
from ..nodes.node import Node
from ..nodes.registry import imports

_SATURATING = frozenset(
    np.dtype(kind)
    for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz)
)
_POWER = np.dtype(ml_dtypes.float8_e8m0fnu)


@imports("Cast")
def cast_to(node: Node, input: ir.Value) -> ir.Value:
    """Cast."""
    kind = node.dtype("to")
    assert kind is not None
    return converted(node, input, kind)


@imports("CastLike")
def cast_like(node: Node, input: ir.Value, target: ir.Value) -> ir.Value:
    """CastLike: a cast to the second input's element type."""
    return converted(node, input, dtype(target))


def converted(node: Node, input: ir.Value, kind: np.dtype) -> ir.Value:
    """Converts `input` to elements of `kind` by the node's `saturate` and `round_mode`."""
    saturates, rounding = bool(node.attribute("saturate", 1)), node.attribute("round_mode", "up")
    if kind == dtype(input):
        return input
    if kind == _POWER:
        return _as_power(input, saturates, rounding)
    return saturated(input, kind) if saturates and kind in _SATURATING else cast(input, kind)


def saturated(input: ir.Value, kind: np.dtype) -> ir.Value:
    """Converts `input` to floats of eight bits; numbers out of range become the greatest one, NaN stays NaN."""
    wide = input if is_float(dtype(input)) and not is_tiny_float(dtype(input)) else cast(input, np.float32)
    greatest = float(ml_dtypes.finfo(kind).max)
    return cast(emit(ew.ClipOp, wide, minimum=-greatest, maximum=greatest), kind)


def _as_power(input: ir.Value, saturates: bool, rounding: str) -> ir.Value:
    """Rounds magnitudes to powers of two: an addend to their bits carries into the exponent."""
    bits = emit(ew.BitcastOp, cast(input, np.float32), dtype=np.dtype(np.uint32))
    size = emit(ew.AndOp, bits, scalar(0x7FFFFFFF, bits))

    def exponent(addend: int) -> ir.Value:
        return emit(ew.ShiftRightOp, emit(ew.AddOp, size, scalar(addend, size)), scalar(23, size))

    below = exponent(0)
    if rounding == "up":
        code = exponent(0x7FFFFF)
    elif rounding == "down":
        code = below
    elif rounding == "nearest":
        # Halves round up, except the one between 0 and the least power.
        is_denormal = emit(ew.EqualOp, below, scalar(0, below))
        code = emit(ew.SelectOp, is_denormal, exponent(0x3FFFFF), exponent(0x400000))
    else:
        raise AttributeFault(f"attribute 'round_mode' is '{rounding}', which is not one of up, down, nearest")
    if saturates:
        code = emit(ew.MinimumOp, code, scalar(254, code))
    is_finite = emit(ew.LessOp, below, scalar(255, below))
    code = emit(ew.SelectOp, is_finite, code, scalar(255, code))
    return emit(ew.BitcastOp, cast(code, np.uint8), dtype=_POWER)


@imports("BitCast")
def bit_cast(node: Node, input: ir.Value) -> ir.Value:
    """BitCast: the same bits as elements of another type of the same size."""
    kind = node.dtype("to")
    assert kind is not None
    return emit(ew.BitcastOp, input, dtype=kind)
