"""Parts of floats, neighbouring floats, and common divisors."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.reduction import ReduceMaxOp
from ...build import cast, dtype, emit, rank
from ...formulas import Formula
from ...loops import Carried, repeated
from ..node import AtenNode
from ..registry import imports
from .arithmetic import as_value
from .movement import broadcast

_LAYOUT = {2: (10, 15), 4: (23, 127), 8: (52, 1023)}
"""The number of bits of the fraction, and the exponent's offset, by the number of bytes."""


def _bits(value: Formula, kind: np.dtype | type) -> Formula:
    return Formula(emit(ew.BitcastOp, value.value, dtype=np.dtype(kind)))


@imports("aten.frexp.Tensor", "prims.frexp.default")
def frexp(node: AtenNode, input: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The number m with 1/2 <= |m| < 1 and the exponent e with x = m * 2 ** e."""
    x, kind = Formula(input), dtype(input)
    fraction, bias = _LAYOUT[kind.itemsize]
    integer = np.dtype(f"i{kind.itemsize}")
    is_small = abs(x) < float(np.finfo(kind).tiny)
    # Numbers without a leading one get it by a factor.
    bits = _bits((x * 2.0**fraction).where(is_small, x), integer)
    mask = ((1 << (8 * kind.itemsize - 1 - fraction)) - 1) << fraction
    exponent = Formula(emit(ew.ShiftRightOp, (bits & mask).value, as_value(fraction, integer))) - (bias - 1)
    exponent = (exponent - fraction).where(is_small, exponent)
    mantissa = _bits(bits & ~mask | ((bias - 1) << fraction), kind)
    is_plain = ~x.equals(0) & (abs(x) < np.inf)
    return mantissa.where(is_plain, x).value, exponent.where(is_plain, 0).as_type(np.int32).value


@imports("aten.nextafter.default", "prims.nextafter.default")
def next_after(node: AtenNode, input: ir.Value, other: Any = None, b: Any = None) -> ir.Value:
    """The next float in the direction of another one: its bits, as an integer, are one more or less."""
    kind = node.dtype()
    x, target = (Formula(broadcast(cast(item, kind), node.sizes())) for item in (input, b if other is None else other))
    integer = np.dtype(f"i{kind.itemsize}")
    bits = _bits(x, integer)
    is_outwards = (target > x).equals(x > 0)
    moved = _bits((bits + 1).where(is_outwards, bits - 1), kind)
    least = _bits(bits * 0 + 1, kind)
    moved = least.where(x.equals(0) & (target > 0), (-least).where(x.equals(0), moved))
    made = target.where(x.equals(target), moved)
    return made.where(x.equals(x) & target.equals(target), x + target).value


@imports("aten.gcd.default", "prims.gcd.default")
def greatest_common_divisor(node: AtenNode, input: ir.Value, other: Any = None, b: Any = None) -> ir.Value:
    """Euclid's algorithm, until no remainder is left."""
    kind = node.dtype()
    first, second = (
        abs(Formula(broadcast(cast(item, kind), node.sizes()))) for item in (input, b if other is None else other)
    )

    def goes_on(rest: Formula) -> ir.Value:
        condition = ~rest.equals(0)
        axes = tuple(range(rank(condition.value)))
        return emit(ReduceMaxOp, condition.value, axes=axes, keepdims=False) if axes else condition.value

    def body(number: ir.Value, values: Carried) -> tuple[ir.Value, Carried]:
        large, small = map(Formula, values)
        is_done = small.equals(0)
        rest = (large % small.where(~is_done, 1)).where(~is_done, 0)
        return goes_on(rest), [large.where(is_done, small).value, rest.value]

    return repeated(None, goes_on(second), [first.value, second.value], body)[0]
