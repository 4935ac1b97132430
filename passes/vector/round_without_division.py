"""`stepwell-round-without-division`: quantisation by products instead of a division, as exact as before."""

from __future__ import annotations

import math as python_math
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.named_ops import ops_named
from .approximations.arithmetic import Arithmetic, constant_of

_ROUNDING = 1.5 * 2**23
"""Added to a float32 of at most 2^22 in magnitude, it leaves no bits for a fraction: the sum is rounded to an integer,
which is in its last bits."""

_HALF = 0.5
"""Mantissa of a power of two, as `math.frexp` returns it."""

_MOST = 2**20
"""Maximum magnitude of a saturated integer and of a zero point."""

_LEAST_SCALE, _MOST_SCALE = 2.0**-60, 2.0**60
"""Scales for which no intermediate result overflows, or underflows unless the quotient is rounded to 0."""


@register
@dataclass(frozen=True)
class RoundWithoutDivisionPass(Pass):
    """Replace division by a constant, rounding and saturation by products and an addition, on scalars and vectors.

    ```mlir
    %1 = arith.divf %x, %scale
    %2 = math.roundeven %1
    %3 = arith.addf %2, %zero_point
    %4 = (%3 at least %low, at most %high)
    %5 = arith.fptosi %4
    // -->
    %0 = (%x at least %least, at most %most)
    %1 = arith.mulf %0, %reciprocal
    %2 = math.fma %1, -%scale, %0
    %3 = math.fma %2, %reciprocal, %1
    %4 = arith.bitcast (arith.addf %3, 1.5 * 2^23)
    %5 = arith.subi %4, (the bits of 1.5 * 2^23, minus %zero_point)
    ```

    A division of vectors takes as long as ten to thirty multiply-adds. The two multiply-adds correct the product to
    the quotient as it is rounded by a division (P. Markstein, Computation of elementary functions on the IBM RISC
    System/6000 processor, theorem 3.2: `%reciprocal` is rounded correctly). %least and %most are the numbers farthest
    from 0 that are not saturated; bounds that %x has already, as from a clip, are joined with them. The integers are
    the same for all numbers, infinities included; NaN, whose conversion to an integer is undefined, stays undefined.
    A scale that is a power of two needs no correction, and a missing division no product.
    """

    name = "stepwell-round-without-division"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every such conversion inside `op`."""
        for inner in ops_named(op, "arith.fptosi"):
            found = _matched(inner)
            if found is not None:
                with inner.location, ir.InsertionPoint(inner):
                    inner.results[0].replace_all_uses_with(found.emit())
                inner.erase()


@dataclass(frozen=True)
class _Quantization:
    """A saturated integer: `saturated(round(numbers / scale) + zero_point)`.

    Attributes:
        numbers: the float32 numbers, a scalar or a vector.
        scale: what they are divided by; positive.
        zero_point: the integer that is added.
        low: the least integer.
        high: the greatest integer.
    """

    numbers: ir.Value
    scale: np.float32
    zero_point: int
    low: int
    high: int

    def emit(self) -> ir.Value:
        """Emits the integer."""
        on = Arithmetic(self.numbers.type)
        numbers, least, most = _unbounded(self.numbers)
        low, high = self._bounds()
        numbers = on.clamp(numbers, *(float(np.clip(bound, low, high)) for bound in (least, most)))
        # The parity of the sum decides between two integers that are equally near, so an odd zero point is added later.
        rest = self.zero_point % 2
        shifted = arith.addf(self._quotient(on, numbers), on.number(_ROUNDING + self.zero_point - rest))
        return arith.subi(on.bits(shifted), on.integer(on.bits_of(_ROUNDING) - rest))

    def _quotient(self, on: Arithmetic, numbers: ir.Value) -> ir.Value:
        """Emits the quotient as a division rounds it."""
        if self.scale == 1:
            return numbers
        reciprocal = on.number(float(np.float32(1 / np.float64(self.scale))))
        first = arith.mulf(numbers, reciprocal)
        if _is_power_of_two(self.scale):
            return first
        error = on.fma(first, on.number(-float(self.scale)), numbers)
        return on.fma(error, reciprocal, first)

    def _bounds(self) -> tuple[float, float]:
        """Returns the least and the greatest number that is not saturated."""
        return self._farthest(self.low - self.zero_point, -1), self._farthest(self.high - self.zero_point, 1)

    def _farthest(self, limit: int, side: int) -> float:
        """Returns the last number in one direction whose rounded quotient is not beyond `limit`."""
        inside, outside = (np.float32(number * np.float64(self.scale)) for number in (limit, limit + side))
        while True:
            middle = np.float32((np.float64(inside) + np.float64(outside)) / 2)
            if middle in (inside, outside):
                return float(inside)
            is_inside = side * (np.rint(middle / self.scale) - limit) <= 0
            inside, outside = (middle, outside) if is_inside else (inside, middle)


def _matched(op: ir.Operation) -> _Quantization | None:
    """Returns what an `arith.fptosi` converts, if it is a saturated rounded quotient."""
    value = op.operands[0]
    if not _is_float(value.type) or op.results[0].type != Arithmetic(value.type).like(ir.IntegerType.get_signless(32)):
        return None
    value, low, high = _unbounded(value)
    offset, value = _with_constant(value, "arith.addf")
    rounded = _owner(value, "math.roundeven")
    if rounded is None or not all(
        abs(number) <= _MOST and number == round(number) for number in (low, high, offset or 0)
    ):
        return None
    zero_point = int(offset or 0)
    scale, numbers = _with_constant(rounded.operands[0], "arith.divf")
    if scale is None:
        factor, product = _with_constant(rounded.operands[0], "arith.mulf")
        # A product is the same as a division only by a power of two.
        if factor is not None and factor > 0 and _is_power_of_two(factor):
            scale, numbers = 1 / factor, product
    scale = 1.0 if scale is None else scale
    if not _LEAST_SCALE <= scale <= _MOST_SCALE or not low < high:
        return None
    return _Quantization(numbers, np.float32(scale), zero_point, int(low), int(high))


def _unbounded(value: ir.Value) -> tuple[ir.Value, float, float]:
    """Returns a value without its constant bounds, which let NaN pass, and the bounds."""
    low, high = -np.inf, np.inf
    while (found := _bound(value)) is not None:
        value, bound, predicate = found
        if predicate == arith.CmpFPredicate.OGT:  # an inner bound is applied first
            low, high = max(low, min(bound, high)), high
        else:
            low, high = low, min(high, max(bound, low))
    return value, float(low), float(high)


def _bound(value: ir.Value) -> tuple[ir.Value, float, arith.CmpFPredicate] | None:
    """Returns the value, the bound and the comparison of `select(bound > value, bound, value)`, or with `<`."""
    chosen = _owner(value, "arith.select")
    if chosen is None:
        return None
    compared = _owner(chosen.operands[0], "arith.cmpf")
    if compared is None or list(compared.operands) != list(chosen.operands)[1:]:
        return None
    bound, inner = constant_of(compared.operands[0]), compared.operands[1]
    predicate = arith.CmpFPredicate(ir.IntegerAttr(compared.attributes["predicate"]).value)
    if bound is None or predicate not in (arith.CmpFPredicate.OGT, arith.CmpFPredicate.OLT):
        return None
    return inner, bound, predicate


def _with_constant(value: ir.Value, name: str) -> tuple[float | None, ir.Value]:
    """Returns the constant right operand of an op `name` and its left operand; None and the value if it is no such."""
    op = _owner(value, name)
    constant = None if op is None else constant_of(op.operands[1])
    return (None, value) if op is None or constant is None else (constant, op.operands[0])


def _owner(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != name else owner.operation


def _is_float(kind: ir.Type) -> bool:
    """Returns whether a type is f32 or a vector of f32."""
    return isinstance(kind.element_type if isinstance(kind, ir.VectorType) else kind, ir.F32Type)


def _is_power_of_two(number: float | np.floating) -> bool:
    return python_math.frexp(float(number))[0] == _HALF
