"""Sums over the lanes of many vectors at once.

The sum over one vector of 16 lanes takes 4 shuffles and 4 additions. The sums over 16 vectors take 30 shuffles and 15
additions: each step adds the halves of two vectors, and leaves one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, vector

from ..builders.generics import multiply_add

SUMS = 16
"""Number of vectors, and of the lanes of each."""

_GROUP = 4
"""Number of lanes in a register of 16 bytes. The last two steps add lanes of one such part, by cheap shuffles."""

_STEPS = ((4, 8), (8, 4), (1, 2), (2, 1))
"""The distance of the numbers of two vectors that a step adds up, and that of the lanes that it adds, for each step.

Lanes are added in the order of a sum over a single vector: those that are 8 apart first, then 4, 2 and 1.
"""


def lane_sums(item: Callable[[int], ir.Value]) -> ir.Value:
    """Returns a vector whose lane `number` is the sum over the lanes of `item(number)`.

    Args:
        item: returns a vector; it is called in an order in which few vectors are in use at a time.
    """
    return _added(item, 0, len(_STEPS))


def products(left: Sequence[ir.Value], right: Sequence[ir.Value]) -> list[ir.Value]:
    """Returns vectors whose lanes add up to the sum of the products of two lists of vectors, one for each width."""
    sums: dict[int, ir.Value] = {}
    for one, other in zip(left, right, strict=True):
        width = ir.VectorType(one.type).shape[0]
        sums[width] = multiply_add(one, other, sums[width]) if width in sums else arith.mulf(one, other)
    return list(sums.values())


def _added(item: Callable[[int], ir.Value], number: int, steps: int) -> ir.Value:
    """Returns the vector after some steps; `number` is that of its first vector."""
    if steps == 0:
        return item(number)
    between, apart = _STEPS[steps - 1]
    left, right = (_added(item, number + more, steps - 1) for more in (0, between))
    lanes = _lanes(apart)
    return arith.addf(*(vector.shuffle(left, right, [lane + more for lane in lanes]) for more in (0, apart)))


def _lanes(apart: int) -> list[int]:
    """Returns the lanes of two vectors to which those that are `apart` are added, in the order of the result.

    Parts of whole registers are first those of the left vector, then those of the right one; within such a register,
    its lanes of the left vector come first.
    """
    if apart >= _GROUP:
        return [lane for lane in range(2 * SUMS) if lane % (2 * apart) < apart]
    kept = [lane for lane in range(_GROUP) if lane % (2 * apart) < apart]
    return [start + side + lane for start in range(0, SUMS, _GROUP) for side in (0, SUMS) for lane in kept]
