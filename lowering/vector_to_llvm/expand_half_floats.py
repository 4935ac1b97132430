"""`stepwell-expand-half-floats`: converts f16 by integer arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.rewriting import walk
from ..builders.scalars import number

_SHIFT = 23 - 10
"""Bits by which the mantissa of f32 is longer."""
_EXPONENT = 23
"""Position of the exponent of f32."""
_BIAS = 127 - 15
"""Difference of the biases of the exponents."""
_SIGN = 0x8000
_INFINITY = 0x7C00
_LEAST_NORMAL = 0x0400
_QUIET = 0x0200
"""The bit of f16 that distinguishes a NaN from infinity."""
_MANTISSA = 0x03FF


@register
@dataclass(frozen=True)
class ExpandHalfFloatsPass(Pass):
    """Convert between f16 and f32 with integer instructions, for machines without instructions for f16.

    LLVM would call functions that only some C libraries have. Numbers are rounded to the nearest, to even in between,
    and denormal numbers are kept, also if the processor flushes those of f32.

    ```mlir
    %1 = arith.extf %0 : f16 to f32
    // -->
    %bits = arith.bitcast %0 : f16 to i16
    ...
    %1 = arith.bitcast %all : i32 to f32
    ```

    Preconditions: other ops on f16 were converted to f32.
    """

    name = "stepwell-expand-half-floats"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Visits all conversions of a module."""
        for found in list(walk(op)):
            if found.name not in ("arith.extf", "arith.truncf"):
                continue
            value, result = found.operands[0], found.results[0]
            with found.location, ir.InsertionPoint(found):
                if found.name == "arith.extf" and _is_half(value.type):
                    made = _extended(value, result.type)
                elif found.name == "arith.truncf" and _is_half(result.type):
                    made = _rounded(value, result.type)
                else:
                    continue
            result.replace_all_uses_with(made)
            found.erase()


def _is_half(kind: ir.Type) -> bool:
    return isinstance(kind.element_type if isinstance(kind, ir.VectorType) else kind, ir.F16Type)


def _like(kind: ir.Type, element: ir.Type) -> ir.Type:
    """Returns a type with the shape of another one."""
    if not isinstance(kind, ir.VectorType):
        return element
    return ir.VectorType.get(kind.shape, element)


def _number(value: int, kind: ir.Type) -> ir.Value:
    if not isinstance(kind, ir.VectorType):
        return number(value, kind)
    element = ir.IntegerAttr.get(kind.element_type, value)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, element))


def _extended(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Converts f16 to f32 or f64."""
    i16, i32 = (ir.IntegerType.get_signless(bits) for bits in (16, 32))
    wide, single = _like(value.type, i32), _like(value.type, ir.F32Type.get())

    def at(number: int) -> ir.Value:
        return _number(number, wide)

    bits = arith.extui(wide, arith.bitcast(_like(value.type, i16), value))
    sign = arith.shli(arith.andi(bits, at(_SIGN)), at(16))
    size = arith.andi(bits, at(_SIGN - 1))
    shifted = arith.shli(size, at(_SHIFT))
    normal = arith.addi(shifted, at(_BIAS << _EXPONENT))
    special = arith.addi(shifted, at(2 * _BIAS << _EXPONENT))
    # The number 1.m * 2^-14, less 2^-14.
    least = at((_BIAS + 1) << _EXPONENT)
    small = arith.subf(arith.bitcast(single, arith.addi(shifted, least)), arith.bitcast(single, least))
    found = arith.select(arith.cmpi(arith.CmpIPredicate.uge, size, at(_INFINITY)), special, normal)
    is_small = arith.cmpi(arith.CmpIPredicate.ult, size, at(_LEAST_NORMAL))
    found = arith.select(is_small, arith.bitcast(wide, small), found)
    result = arith.bitcast(single, arith.ori(found, sign))
    return result if kind == single else arith.extf(kind, result)


def _rounded(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Converts f32 to f16; f64 is rounded to f32 before."""
    i16, i32 = (ir.IntegerType.get_signless(bits) for bits in (16, 32))
    wide, single = _like(kind, i32), _like(kind, ir.F32Type.get())

    def at(number: int) -> ir.Value:
        return _number(number, wide)

    value = value if value.type == single else arith.truncf(single, value)
    bits = arith.bitcast(wide, value)
    sign = arith.andi(arith.shrui(bits, at(16)), at(_SIGN))
    size = arith.andi(bits, at((1 << 31) - 1))
    # Half of the last place, and less by 1 unless the last bit is set, is added before the cut.
    odd = arith.andi(arith.shrui(size, at(_SHIFT)), at(1))
    raised = arith.addi(arith.addi(size, at((1 << (_SHIFT - 1)) - 1)), odd)
    normal = arith.shrui(arith.subi(raised, at(_BIAS << _EXPONENT)), at(_SHIFT))
    # The last place of 0.5 in f32 is that of denormal numbers of f16, so that an addition rounds to it.
    half = at((_BIAS + _SHIFT + 1) << _EXPONENT)
    added = arith.addf(arith.bitcast(single, size), arith.bitcast(single, half))
    small = arith.subi(arith.bitcast(wide, added), half)
    payload = arith.andi(arith.shrui(size, at(_SHIFT)), at(_MANTISSA))
    nan = arith.ori(payload, at(_INFINITY | _QUIET))
    is_nan = arith.cmpi(arith.CmpIPredicate.ugt, size, at(255 << _EXPONENT))
    special = arith.select(is_nan, nan, at(_INFINITY))
    is_small = arith.cmpi(arith.CmpIPredicate.ult, size, at((_BIAS + 1) << _EXPONENT))
    is_large = arith.cmpi(arith.CmpIPredicate.uge, size, at((127 + 16) << _EXPONENT))
    found = arith.select(is_large, special, arith.select(is_small, small, normal))
    short = arith.trunci(_like(kind, i16), arith.ori(found, sign))
    return arith.bitcast(kind, short)
