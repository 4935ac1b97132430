"""Elementwise ops that can be dropped, merged, or replaced by a cheaper op with the same value in float32.

Only factors that are powers of two are reassociated, which is exact unless the first product leaves the range of its
type; the result is then more precise. NaN and infinities are preserved, except that pow(-inf, 0.5) becomes NaN. The
sign of a zero may change when zero is added.
"""

from __future__ import annotations

import numpy as np

from ....dialects.stepwell.elementwise import (
    AbsOp,
    AddOp,
    AndOp,
    BinaryOp,
    DivOp,
    EqualOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    NegOp,
    NotOp,
    OrOp,
    PowOp,
    ReciprocalOp,
    ReluOp,
    RsqrtOp,
    SqrtOp,
    SubOp,
    XorOp,
)
from ....dialects.stepwell.movement import BroadcastToOp
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op
from ..values import constant, constant_of, dtype_of, is_float, is_literal, splat_constant, splat_of, static_shape

MAX_ELEMENTS = 1024
"""Maximum number of elements of constants that patterns compute with."""


class ConstantToTheRight(Pattern[BinaryOp]):
    """op(c, x) --> op(x, c), if op is commutative: the other patterns match constants on the right"""

    root = (AddOp, MulOp, MinimumOp, MaximumOp, AndOp, OrOp, XorOp, EqualOp)

    def rewrite(self, op: BinaryOp) -> Replacement:
        if not is_literal(op.lhs) or is_literal(op.rhs):
            return None
        return type(op)(op.rhs, op.lhs).result


class DropNeutral(Pattern[BinaryOp]):
    """x + 0 | x - 0 | x * 1 | x / 1 | pow(x, 1) --> x"""

    root = BinaryOp

    def rewrite(self, op: BinaryOp) -> Replacement:
        if op.RIGHT_NEUTRAL is None or splat_of(op.rhs) != op.RIGHT_NEUTRAL:
            return None
        if op.lhs.type == op.result.type:
            return op.lhs
        shape = static_shape(op.result)
        return None if shape is None else BroadcastToOp(op.lhs, shape=shape).result


class IntegerAnnihilation(Pattern[BinaryOp]):
    """x * 0 | x - x --> 0, for integers only: in floating point, NaN and infinite x give NaN"""

    root = (MulOp, SubOp)

    def rewrite(self, op: BinaryOp) -> Replacement:
        vanishes = op.lhs == op.rhs if isinstance(op, SubOp) else splat_of(op.rhs) == 0
        shape = static_shape(op.result)
        if not vanishes or shape is None:
            return None
        if is_float(op.lhs):
            return Refusal("the result is NaN if the operand is NaN or infinite")
        return splat_constant(dtype_of(op.result).type(0), shape)


class ExpandPow(Pattern[PowOp]):
    """pow(x, 2) --> x * x, pow(x, 3) --> x * x * x, pow(x, 0.5) --> sqrt(x), pow(x, -1) --> reciprocal(x)"""

    root = PowOp

    def rewrite(self, op: PowOp) -> Replacement:
        exponent = splat_of(op.rhs)
        if exponent is None or op.lhs.type != op.result.type:
            return None
        if exponent == 2:
            return MulOp(op.lhs, op.lhs).result
        if exponent == 3:
            return MulOp(MulOp(op.lhs, op.lhs), op.lhs).result
        if not is_float(op.lhs):
            return None
        if exponent == 0.5:
            return SqrtOp(op.lhs).result
        return ReciprocalOp(op.lhs).result if exponent == -1 else None


class DivToMul(Pattern[DivOp]):
    """x / c --> x * (1 / c), if all elements of c are powers of two, whose reciprocals are exact"""

    root = DivOp

    def rewrite(self, op: DivOp) -> Replacement:
        divisor = constant_of(op.rhs)
        if divisor is None or not is_float(op.rhs):
            return None
        if not _are_powers_of_two(divisor):
            return Refusal("the reciprocal of the divisor is not exact")
        if divisor.size > MAX_ELEMENTS:
            return None
        with np.errstate(over="ignore"):
            inverse = (1 / divisor.astype(np.float64)).astype(divisor.dtype)
        if not np.all(inverse.astype(np.float64) * divisor.astype(np.float64) == 1):
            return Refusal("the reciprocal of the divisor is not a finite number")
        return MulOp(op.lhs, constant(inverse)).result


def _are_powers_of_two(array: np.ndarray) -> bool:
    distinct = array.reshape(-1)[:1] if 0 in array.strides else array
    mantissas, exponents = np.frexp(distinct.astype(np.float64))
    return bool(np.all(np.abs(mantissas) == 0.5) and np.all(np.abs(exponents) < 64))


class MergeFactors(Pattern[MulOp]):
    """(x * a) * b --> x * (a * b), if all of a or all of b are powers of two (or for integers)"""

    root = MulOp

    def rewrite(self, op: MulOp) -> Replacement:
        inner, outer = defining_op(op.lhs, MulOp), constant_of(op.rhs)
        factor = None if inner is None else constant_of(inner.rhs)
        if inner is None or outer is None or factor is None:
            return None
        if is_float(op.rhs) and not _are_powers_of_two(outer) and not _are_powers_of_two(factor):
            return Refusal("the product of the two factors is rounded")
        if outer.shape and factor.shape and outer.shape != factor.shape:
            return Refusal("the factors have different shapes")
        if max(outer.size, factor.size) > MAX_ELEMENTS:
            return None
        with np.errstate(over="ignore", under="ignore"):
            product = outer * factor
        if is_float(op.rhs) and not _is_exact(product, outer, factor):
            return Refusal("the product of the two factors overflows or underflows")
        return MulOp(inner.lhs, constant(product)).result


def _is_exact(product: np.ndarray, first: np.ndarray, second: np.ndarray) -> bool:
    """Returns whether a product, one of whose factors is a power of two, has the digits of the other factor."""
    mantissas = [np.frexp(array.astype(np.float64))[0] for array in (first, second, product)]
    return np.array_equal(mantissas[0] * mantissas[1] * 2, np.broadcast_to(mantissas[2], product.shape))


class MergeIntegerTerms(Pattern[AddOp]):
    """(x + a) + b --> x + (a + b), for integers"""

    root = AddOp

    def rewrite(self, op: AddOp) -> Replacement:
        inner, outer = defining_op(op.lhs, AddOp), constant_of(op.rhs)
        term = None if inner is None else constant_of(inner.rhs)
        if inner is None or outer is None or term is None or is_float(op.rhs):
            return None
        return AddOp(inner.lhs, constant(outer + term)).result if outer.shape == term.shape else None


class AddOfNegative(Pattern[AddOp]):
    """x + -y --> x - y"""

    root = AddOp

    def rewrite(self, op: AddOp) -> Replacement:
        negative = defining_op(op.rhs, NegOp)
        return None if negative is None else SubOp(op.lhs, negative.input).result


class MulByMinusOne(Pattern[MulOp]):
    """x * -1 --> -x"""

    root = MulOp

    def rewrite(self, op: MulOp) -> Replacement:
        return NegOp(op.lhs).result if splat_of(op.rhs) == -1 and op.lhs.type == op.result.type else None


class DropPair(Pattern):
    """-(-x) | not(not(x)) --> x, abs(-x) --> abs(x), relu(relu(x)) | abs(abs(x)) --> the inner one"""

    root = (NegOp, NotOp, AbsOp, ReluOp)

    def rewrite(self, op: NegOp | NotOp | AbsOp | ReluOp) -> Replacement:
        if isinstance(op, AbsOp) and (negative := defining_op(op.input, NegOp)) is not None:
            # Negating an unsigned number gives another unsigned number, which is its own absolute value.
            return None if dtype_of(op.input).kind == "u" else AbsOp(negative.input).result
        inner = defining_op(op.input, type(op))
        if inner is None:
            return None
        return inner.input if isinstance(op, NegOp | NotOp) else op.input


class ReciprocalOfSqrt(Pattern[ReciprocalOp]):
    """reciprocal(sqrt(x)) --> rsqrt(x)"""

    root = ReciprocalOp

    def rewrite(self, op: ReciprocalOp) -> Replacement:
        inner = defining_op(op.input, SqrtOp)
        return None if inner is None else RsqrtOp(inner.input).result


class ReciprocalOfOne(Pattern[DivOp]):
    """1 / x --> reciprocal(x)"""

    root = DivOp

    def rewrite(self, op: DivOp) -> Replacement:
        is_one = is_float(op.rhs) and splat_of(op.lhs) == 1 and op.rhs.type == op.result.type
        return ReciprocalOp(op.rhs).result if is_one else None


PATTERNS: tuple[Pattern, ...] = (
    ConstantToTheRight(),
    DropNeutral(),
    IntegerAnnihilation(),
    ExpandPow(),
    DivToMul(),
    MergeFactors(),
    MergeIntegerTerms(),
    AddOfNegative(),
    MulByMinusOne(),
    DropPair(),
    ReciprocalOfSqrt(),
    ReciprocalOfOne(),
)
