"""Arithmetic on floats and their bits, for one element type, on scalars or vectors."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, math


class Arithmetic:
    """Emits code on values of one type, f32 or f64 or a vector of these.

    Attributes:
        is_double: whether the elements are f64.
        mantissa_bits: the explicit bits of the significand.
        bias: the exponent's bias.
    """

    def __init__(self, kind: ir.Type) -> None:
        self._kind = kind
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        self.is_double = isinstance(element, ir.F64Type)
        self.mantissa_bits, self.bias = (52, 1023) if self.is_double else (23, 127)
        self._element = element
        self._integer = ir.IntegerType.get_signless(64 if self.is_double else 32)

    def like(self, element: ir.Type) -> ir.Type:
        """The type of values with other elements."""
        return ir.VectorType.get(self._kind.shape, element) if isinstance(self._kind, ir.VectorType) else element

    def number(self, value: float) -> ir.Value:
        """A constant."""
        return self._constant(self._kind, ir.FloatAttr.get(self._element, value))

    def integer(self, value: int) -> ir.Value:
        """A constant as wide as the floats."""
        return self._constant(self.like(self._integer), ir.IntegerAttr.get(self._integer, value))

    def _constant(self, kind: ir.Type, attribute: ir.Attribute) -> ir.Value:
        is_vector = isinstance(kind, ir.VectorType)
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, attribute) if is_vector else attribute)

    def bits(self, value: ir.Value) -> ir.Value:
        """The bits of floats."""
        return arith.bitcast(self.like(self._integer), value)

    def floats(self, bits: ir.Value) -> ir.Value:
        """The floats with these bits."""
        return arith.bitcast(self._kind, bits)

    def bits_of(self, value: float) -> int:
        """The bits of a constant."""
        return struct.unpack("<q" if self.is_double else "<i", struct.pack("<d" if self.is_double else "<f", value))[0]

    def fma(self, lhs: ir.Value, rhs: ir.Value, addend: ir.Value) -> ir.Value:
        """`lhs * rhs + addend`, rounded once."""
        return math.fma(lhs, rhs, addend)

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """A polynomial by Horner's rule, the coefficient of the highest power first."""
        value = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.fma(value, x, self.number(coefficient))
        return value

    def less(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """Whether `lhs < rhs`; not if one is NaN."""
        return arith.cmpf(arith.CmpFPredicate.OLT, lhs, rhs)

    def equal(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """Whether `lhs == rhs`; not if one is NaN."""
        return arith.cmpf(arith.CmpFPredicate.OEQ, lhs, rhs)

    def clamp(self, x: ir.Value, low: float, high: float) -> ir.Value:
        """`x` within bounds; NaN stays NaN."""
        bound = self.number(low)
        x = arith.select(self.less(x, bound), bound, x)
        bound = self.number(high)
        return arith.select(self.less(bound, x), bound, x)

    def nearest(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The nearest integer of a small `x`, as a float and as an integer; of NaN, NaN and some integer.

        Adding 1.5 * 2**(mantissa bits) leaves the integer in the low bits of the sum.
        """
        magic = 1.5 * 2.0**self.mantissa_bits
        shifted = arith.addf(x, self.number(magic))
        whole = arith.subf(shifted, self.number(magic))
        return whole, arith.subi(self.bits(shifted), self.integer(self.bits_of(magic)))

    def power_of_two(self, exponent: ir.Value) -> ir.Value:
        """`2 ** exponent` for an integer within the range of normal numbers."""
        biased = arith.addi(exponent, self.integer(self.bias))
        return self.floats(arith.shli(biased, self.integer(self.mantissa_bits)))
