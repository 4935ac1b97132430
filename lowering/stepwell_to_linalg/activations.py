"""Scalar code of the activation functions, on floats of at least 32 bits."""

from __future__ import annotations

import math as python_math
from collections.abc import Callable

import numpy as np
from mlir import ir
from mlir.dialects import arith, math

from ...dialects.core import Op
from ..builders import scalars
from ..builders.scalars import AFN, number


def _sigmoid(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    return scalars.sigmoid(value)


def _silu(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    return arith.divf(value, arith.addf(number(1, value.type), scalars.exp_of_normal(arith.negf(value))))


def _softplus(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    # max(x, 0) + log(1 + exp(-|x|)) does not overflow.
    rest = math.log1p(math.exp(arith.negf(math.absf(value))))
    return arith.addf(scalars.at_least(value, number(0, value.type)), rest)


def _hard_sigmoid_of(value: ir.Value, alpha: float, beta: float) -> ir.Value:
    line = arith.addf(arith.mulf(value, number(alpha, value.type)), number(beta, value.type))
    return scalars.at_most(scalars.at_least(line, number(0, value.type)), number(1, value.type))


def _hard_sigmoid(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    attributes = op.attribute_values()
    return _hard_sigmoid_of(value, attributes["alpha"], attributes["beta"])


def _hard_swish(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    return arith.mulf(value, _hard_sigmoid_of(value, 1 / 6, 0.5))


def _gelu(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    half, one = number(0.5, value.type), number(1, value.type)
    if op.attribute_values()["approximate"] == "none":
        # An error of a few units in the last place of erf matters little beside 1.
        gate = math.erf(arith.mulf(value, number(python_math.sqrt(0.5), value.type)), fastmath=scalars.flags(AFN))
        return arith.mulf(value, arith.addf(arith.mulf(half, gate), half))
    cube = arith.mulf(arith.mulf(value, value), value)
    inner = arith.addf(value, arith.mulf(number(0.044715, value.type), cube))
    gate = math.tanh(arith.mulf(number(python_math.sqrt(2 / python_math.pi), value.type), inner))
    return arith.mulf(arith.mulf(value, half), arith.addf(one, gate))


def _leaky_relu(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    is_positive = arith.cmpf(arith.CmpFPredicate.OGE, value, number(0, value.type))
    scaled = arith.mulf(number(op.attribute_values()["alpha"], value.type), value)
    return arith.select(is_positive, value, scaled)


def _elu(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    is_positive = arith.cmpf(arith.CmpFPredicate.OGE, value, number(0, value.type))
    low = math.expm1(scalars.at_most(value, number(0, value.type)))
    return arith.select(is_positive, value, arith.mulf(number(op.attribute_values()["alpha"], value.type), low))


SCALARS: dict[str, Callable[..., ir.Value]] = {
    "sigmoid": _sigmoid,
    "silu": _silu,
    "softplus": _softplus,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
}
