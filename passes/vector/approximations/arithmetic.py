"""Arithmetic on floats and their bits, for one element type, on scalars or vectors."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, llvm, math, vector


class Arithmetic:
    """Emits code on values of one type, f32 or f64 or a vector of these.

    Attributes:
        is_double: whether the elements are f64.
        mantissa_bits: number of explicit bits of the significand.
        bias: bias of the exponent.
        can_scale: whether the target has an instruction for `scaled`.
    """

    def __init__(self, kind: ir.Type, has_scalef: bool = False) -> None:
        self._kind = kind
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        self.is_double = isinstance(element, ir.F64Type)
        self.mantissa_bits, self.bias = (52, 1023) if self.is_double else (23, 127)
        self._element = element
        self._integer = ir.IntegerType.get_signless(64 if self.is_double else 32)
        self._register = 8 if self.is_double else 16
        is_whole = isinstance(kind, ir.VectorType) and kind.shape[0] % self._register == 0
        self.can_scale = has_scalef and is_whole

    def like(self, element: ir.Type) -> ir.Type:
        """The type with the same shape and another element type."""
        return ir.VectorType.get(self._kind.shape, element) if isinstance(self._kind, ir.VectorType) else element

    def number(self, value: float) -> ir.Value:
        """A floating-point constant."""
        return self._constant(self._kind, ir.FloatAttr.get(self._element, value))

    def integer(self, value: int) -> ir.Value:
        """An integer constant as wide as the floats."""
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

    def product(self, lhs: ir.Value, rhs: ir.Value) -> tuple[ir.Value, ir.Value]:
        """`lhs * rhs` and what its rounding loses."""
        whole = arith.mulf(lhs, rhs)
        return whole, self.fma(lhs, rhs, arith.negf(whole))

    def sum(self, lhs: ir.Value, rhs: ir.Value) -> tuple[ir.Value, ir.Value]:
        """`lhs + rhs` and what its rounding loses, if `lhs` is 0 or has the greater absolute value."""
        whole = arith.addf(lhs, rhs)
        return whole, arith.subf(rhs, arith.subf(whole, lhs))

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """A polynomial by Horner's rule, the coefficient of the highest power first."""
        value = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.fma(value, x, self.number(coefficient))
        return value

    def less(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """True if `lhs < rhs`; false if either is NaN."""
        return arith.cmpf(arith.CmpFPredicate.OLT, lhs, rhs)

    def equal(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """True if `lhs == rhs`; false if either is NaN."""
        return arith.cmpf(arith.CmpFPredicate.OEQ, lhs, rhs)

    def at_most(self, x: ir.Value, high: float) -> ir.Value:
        """The minimum of `x` and the bound; NaN stays NaN."""
        bound = self.number(high)
        return arith.select(self.less(bound, x), bound, x)

    def clamp(self, x: ir.Value, low: float, high: float) -> ir.Value:
        """`x` clamped to the bounds; NaN stays NaN."""
        bound = self.number(low)
        x = arith.select(self.less(x, bound), bound, x)
        bound = self.number(high)
        return arith.select(self.less(bound, x), bound, x)

    def nearest(self, x: ir.Value, scale: float, bias: int = 0) -> tuple[ir.Value, ir.Value]:
        """The integer nearest to a small `x * scale`: as a float, and plus `bias` in the low bits of an integer.

        Adding 1.5 * 2**(mantissa bits) leaves the integer in the low bits of the sum. NaN gives NaN and some integer.
        """
        magic = self.number(1.5 * 2.0**self.mantissa_bits + bias)
        shifted = self.fma(x, self.number(scale), magic)
        return arith.subf(shifted, magic), self.bits(shifted)

    def power_of_two(self, biased: ir.Value) -> ir.Value:
        """`2 ** n` if the low bits of `biased` are n + `bias` and that is the exponent of a normal number."""
        return self.floats(self.shifted(biased))

    def shifted(self, integer: ir.Value) -> ir.Value:
        """The low bits of an integer, shifted to the exponent field of a float."""
        return arith.shli(integer, self.integer(self.mantissa_bits))

    def scaled(self, value: ir.Value, exponent: ir.Value) -> ir.Value:
        """`value * 2 ** exponent` for an integer of any size, rounded once; needs `can_scale`."""
        (lanes,) = ir.VectorType(self._kind).shape
        pieces = [self._scaled_register(value, exponent, first) for first in range(0, lanes, self._register)]
        if len(pieces) == 1:
            return pieces[0]
        whole = value
        for number, piece in enumerate(pieces):
            whole = vector.InsertStridedSliceOp(piece, whole, [number * self._register], [1]).result
        return whole

    def _scaled_register(self, value: ir.Value, exponent: ir.Value, first: int) -> ir.Value:
        kind = ir.VectorType.get([self._register], self._element)
        if kind != self._kind:
            value, exponent = (
                vector.ExtractStridedSliceOp(kind, item, [first], [self._register], [1]).result
                for item in (value, exponent)
            )
        name = f"llvm.x86.avx512.mask.scalef.{'pd' if self.is_double else 'ps'}.512"
        everywhere = arith.constant(ir.IntegerType.get_signless(self._register), -1)
        as_set = llvm.mlir_constant(ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4))
        operands = [value, exponent, value, everywhere, as_set]
        return llvm.call_intrinsic(kind, ir.StringAttr.get(name), operands, [], [])


def constant_of(value: ir.Value) -> float | None:
    """Returns the float that a constant or a broadcast constant has in every lane; None for any other value."""
    if isinstance(value.owner, ir.Block):
        return None
    if value.owner.name == "vector.broadcast":
        return constant_of(value.owner.operands[0])
    if value.owner.name != "arith.constant":
        return None
    attribute = value.owner.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        attribute = attribute.get_splat_value()
    return attribute.value if isinstance(attribute, ir.FloatAttr) else None
