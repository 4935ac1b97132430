"""Online softmax of scores that arrive in blocks: the maximum so far, and the factor for earlier sums.

    greatest' = max(greatest, scores)      factor = exp(greatest - greatest')
    weights = exp(scores - greatest')      sums' = sums * factor + weights @ values

Exponentials are powers of two, one instruction each. If scores are scaled products only, scaling, change of base and
subtraction are one multiply-add.
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
"""Number of independent chains: an operation takes 4 cycles (CUDA C++ Programming Guide, "Multiprocessor Level")."""
Reduce = Callable[[ir.Value], ir.Value]


def number(value: float) -> ir.Value:
    """Returns an f32 constant."""
    return arith.constant(ir.F32Type.get(), value)


def greater(left: ir.Value, right: ir.Value) -> ir.Value:
    """Returns the maximum of two; a NaN is lost here but reappears in the exponent."""
    return llvm.inline_asm(left.type, [left, right], "max.f32 $0, $1, $2;", "=f,f,f")


def power(exponent: ir.Value) -> ir.Value:
    """Returns two to the power of an f32; flushing subnormals to 0 takes one instruction instead of four."""
    return llvm.inline_asm(exponent.type, [exponent], "ex2.approx.ftz.f32 $0, $1;", "=f,f")


class Softmax:
    """Online softmax of one row."""

    def __init__(self, scale: float | None, across: Reduce) -> None:
        """Creates the softmax.

        Args:
            scale: factor that turns products into scores; None if the inputs are scores already.
            across: reduces a value to the maximum over the threads that share a row.
        """
        self._scale, self._across = scale, across

    def step(
        self, scores: Sequence[ir.Value], greatest: ir.Value, total: ir.Value
    ) -> tuple[list[ir.Value], ir.Value, ir.Value, ir.Value]:
        """Processes one more block of scores.

        Args:
            scores: this thread's scores of the row.
            greatest: the maximum score of earlier blocks.
            total: this thread's sum of the weights of earlier blocks.

        Returns:
            The weights, the factor for earlier sums, the maximum score and the total.
        """
        new = greater(self._across(_combined(scores, greater)), greatest)
        # If no key is attended to yet, -inf - (-inf) must not be NaN: weights are 0 whatever is subtracted.
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
    """Reduces the values in a few independent chains; in a single chain every value would wait for all before it."""
    chains = list(values[:_CHAINS])
    for place, value in enumerate(values[_CHAINS:]):
        chains[place % _CHAINS] = combine(chains[place % _CHAINS], value)
    return functools.reduce(combine, chains)
