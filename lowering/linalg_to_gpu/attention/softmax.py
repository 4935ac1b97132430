"""The softmax of scores that come block by block: the greatest so far, and what to multiply earlier sums by.

    greatest' = max(greatest, scores)      factor = exp(greatest - greatest')
    weights = exp(scores - greatest')      sums' = sums * factor + weights @ values

Exponentials are powers of two, one instruction each. Where scores are scaled products alone, scaling, the change of the
base and the subtraction are one multiply-add.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, llvm
from mlir.dialects import math as math_dialect

LOG2_E = math.log2(math.e)
_CHAINS = 4
Reduce = Callable[[ir.Value], ir.Value]


def number(value: float) -> ir.Value:
    """An f32 constant."""
    return arith.constant(ir.F32Type.get(), value)


def greater(left: ir.Value, right: ir.Value) -> ir.Value:
    """The greater of two; a NaN gets lost here, and comes back in the exponent."""
    return llvm.inline_asm(left.type, [left, right], "max.f32 $0, $1, $2;", "=f,f,f")


def power(exponent: ir.Value) -> ir.Value:
    """Two to the power of an f32: one instruction where numbers below the normal ones become 0, four where not."""
    return llvm.inline_asm(exponent.type, [exponent], "ex2.approx.ftz.f32 $0, $1;", "=f,f")


class Softmax:
    """The softmax of one row, block by block."""

    def __init__(self, scale: float | None, across: Reduce) -> None:
        """Prepares.

        Args:
            scale: what products are multiplied by to be scores; None where scores come as they are.
            across: the greatest of what the threads have that share a row.
        """
        self._scale, self._across = scale, across

    def step(
        self, scores: Sequence[ir.Value], greatest: ir.Value, total: ir.Value
    ) -> tuple[list[ir.Value], ir.Value, ir.Value, ir.Value]:
        """One more block of scores.

        Args:
            scores: this thread's scores of the row.
            greatest: the greatest score of earlier blocks.
            total: this thread's sum of the weights of earlier blocks.

        Returns:
            The weights, the factor for earlier sums, the greatest score and the total.
        """
        new = greater(self._across(_combined(scores, greater)), greatest)
        # Where nothing is attended to yet, -inf - (-inf) must not be NaN: weights are 0 whatever is subtracted.
        is_nothing = arith.cmpf(arith.CmpFPredicate.OEQ, new, number(-math.inf))
        base = arith.select(is_nothing, number(0.0), new)
        factor, weights = self._powers(base, greatest, scores)
        return weights, factor, new, math_dialect.fma(total, factor, _combined(weights, arith.addf))

    def _powers(
        self, base: ir.Value, greatest: ir.Value, scores: Sequence[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        if self._scale is None:
            unit = number(LOG2_E)
            powers = [power(arith.mulf(arith.subf(item, base), unit)) for item in (greatest, *scores)]
        else:
            unit = number(self._scale * LOG2_E)
            offset = arith.negf(arith.mulf(base, unit))
            powers = [power(math_dialect.fma(item, unit, offset)) for item in (greatest, *scores)]
        return powers[0], powers[1:]


def _combined(values: Sequence[ir.Value], combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """All values in one, by a few chains: in a single one every value would wait for all before it."""
    chains = list(values[:_CHAINS])
    for place, value in enumerate(values[_CHAINS:]):
        chains[place % _CHAINS] = combine(chains[place % _CHAINS], value)
    return functools.reduce(combine, chains)
