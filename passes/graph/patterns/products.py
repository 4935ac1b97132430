"""Patterns that fuse activations of the form x * f(x)."""

from __future__ import annotations

import math

from mlir import ir

from ....dialects.stepwell.elementwise import (
    AddOp,
    ClipOp,
    DivOp,
    ErfOp,
    GeluOp,
    HardSigmoidOp,
    HardSwishOp,
    MulOp,
    SigmoidOp,
    SiluOp,
    TanhOp,
)
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op, has_one_use
from ..values import is_float, splat_of

# Models contain constants such as sqrt(2) rounded to float32, or to fewer digits.
_TOLERANCE = 1e-4


class FuseProduct(Pattern):
    """Fuses products c * x * f(x), however nested, into one activation.

    x * sigmoid(x)                                  --> silu(x)
    x * hard_sigmoid(x, 1/6, 1/2)                   --> hard_swish(x)
    x * clip(x + 3, 0, 6) / 6                       --> hard_swish(x)
    x * (1 + erf(x / sqrt(2))) * 0.5                --> gelu(x)
    x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) * 0.5 --> gelu(x, tanh)
    """

    root = (MulOp, DivOp)

    def rewrite(self, op: MulOp | DivOp) -> Replacement:
        if not is_float(op.result):
            return None
        factors, coefficient = _factors(op)
        if len(factors) != 2:
            return None
        for argument, function in (factors, factors[::-1]):
            if argument.type == op.result.type:
                fused = _fuse(argument, function, coefficient)
                if fused is not None:
                    return fused
        return None


def _factors(op: MulOp | DivOp) -> tuple[list[ir.Value], float]:
    """The factors of a product that are not constants, at most three, and the product of the constants."""
    factors: list[ir.Value] = []
    coefficient = 1.0
    pending: list[ir.Value] = [op.result]
    while pending and len(factors) < 3:
        value = pending.pop()
        product, quotient = defining_op(value, MulOp), defining_op(value, DivOp)
        is_inner = value != op.result
        number = splat_of(value)
        if number is not None:
            coefficient *= number
        elif product is not None and not (is_inner and not has_one_use(value)):
            pending.extend((product.rhs, product.lhs))
        elif quotient is not None and not (is_inner and not has_one_use(value)) and splat_of(quotient.rhs):
            coefficient /= splat_of(quotient.rhs) or 1.0
            pending.append(quotient.lhs)
        else:
            factors.append(value)
    return factors, coefficient


def _fuse(argument: ir.Value, function: ir.Value, coefficient: float) -> ir.Value | Refusal | None:
    sigmoid, hard = defining_op(function, SigmoidOp), defining_op(function, HardSigmoidOp)
    if sigmoid is not None and sigmoid.input == argument and coefficient == 1:
        return SiluOp(argument).result
    if hard is not None and hard.input == argument and coefficient == 1:
        if not (_near(hard.alpha, 1 / 6) and _near(hard.beta, 0.5)):
            return Refusal(f"hard_swish has slope 1/6 and offset 1/2, not {hard.alpha} and {hard.beta}")
        return HardSwishOp(argument).result
    if _near(coefficient, 1 / 6) and _is_clipped_shift(argument, function):
        return HardSwishOp(argument).result
    if _near(coefficient, 0.5):
        return _fuse_gelu(argument, function)
    return None


def _is_clipped_shift(argument: ir.Value, function: ir.Value) -> bool:
    """Returns whether `function` is clip(argument + 3, 0, 6)."""
    clip = defining_op(function, ClipOp)
    shift = None if clip is None else defining_op(clip.input, AddOp)
    if clip is None or shift is None or (clip.minimum, clip.maximum) != (0, 6):
        return False
    return shift.lhs == argument and splat_of(shift.rhs) == 3


def _fuse_gelu(argument: ir.Value, function: ir.Value) -> ir.Value | None:
    plus_one = defining_op(function, AddOp)
    if plus_one is None or splat_of(plus_one.rhs) != 1:
        return None
    erf, tanh = defining_op(plus_one.lhs, ErfOp), defining_op(plus_one.lhs, TanhOp)
    if erf is not None and _is_multiple(erf.input, argument, 1 / math.sqrt(2)):
        return GeluOp(argument, approximate="none").result
    if tanh is not None and _is_gelu_polynomial(tanh.input, argument):
        return GeluOp(argument, approximate="tanh").result
    return None


def _is_multiple(value: ir.Value, of: ir.Value, factor: float) -> bool:
    """Returns whether `value` is factor * of."""
    quotient, product = defining_op(value, DivOp), defining_op(value, MulOp)
    if quotient is not None and quotient.lhs == of:
        number = splat_of(quotient.rhs)
        return bool(number) and _near(1 / float(number or 1), factor)
    if product is not None and product.lhs == of:
        number = splat_of(product.rhs)
        return number is not None and _near(number, factor)
    return False


def _is_gelu_polynomial(value: ir.Value, argument: ir.Value) -> bool:
    """Returns whether `value` is sqrt(2/pi) * (argument + 0.044715 * argument^3)."""
    scaled = defining_op(value, MulOp)
    total = None if scaled is None else defining_op(scaled.lhs, AddOp)
    if scaled is None or total is None:
        return False
    number = splat_of(scaled.rhs)
    if number is None or not _near(number, math.sqrt(2 / math.pi)):
        return False
    cubic = defining_op(total.rhs if total.lhs == argument else total.lhs, MulOp)
    if argument not in (total.lhs, total.rhs) or cubic is None:
        return False
    number, cube = splat_of(cubic.rhs), defining_op(cubic.lhs, MulOp)
    square = None if cube is None else defining_op(cube.lhs, MulOp)
    if number is None or not _near(number, 0.044715) or cube is None or square is None:
        return False
    return cube.rhs == argument and square.lhs == argument and square.rhs == argument


def _near(number: float, wanted: float) -> bool:
    return abs(number - wanted) <= _TOLERANCE * abs(wanted)


PATTERNS: tuple[Pattern, ...] = (FuseProduct(),)
