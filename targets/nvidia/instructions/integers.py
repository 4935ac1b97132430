"""32-bit integers of a GPU kernel with Python's operators; operations on constants are folded.

    thread = Int(thread_id)               # an i32 of the kernel
    row, column = divmod(thread, 8)       # a shift and a mask
    address = (row * 128 + column) * 4    # constants are folded: Int(3) * 128 is Int(384)

Operands of divisions, shifts and comparisons must be non-negative, so that LLVM may treat them as unsigned.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith


class Int:
    """An i32 that is a Python int or a value of the kernel being built."""

    __slots__ = ("value",)

    def __init__(self, value: int | ir.Value | Int) -> None:
        """Wraps an int, an i32 value, or another `Int`."""
        self.value: int | ir.Value = value.value if isinstance(value, Int) else value

    @property
    def ir(self) -> ir.Value:
        """The number as an i32 value."""
        return constant(self.value) if isinstance(self.value, int) else self.value

    @property
    def known(self) -> int | None:
        """The number if it is a compile-time constant, else None."""
        return self.value if isinstance(self.value, int) else None

    def __add__(self, other: Int | int) -> Int:
        return _apply(self, other, lambda a, b: a + b, arith.AddIOp, neutral=0)

    def __sub__(self, other: Int | int) -> Int:
        return _apply(self, other, lambda a, b: a - b, arith.SubIOp, neutral=0)

    def __mul__(self, other: Int | int) -> Int:
        if 0 in (self.known, Int(other).known):
            return Int(0)
        return _apply(self, other, lambda a, b: a * b, arith.MulIOp, neutral=1)

    def __floordiv__(self, other: int) -> Int:
        if other & (other - 1) == 0:
            return self >> other.bit_length() - 1
        return _apply(self, other, lambda a, b: a // b, arith.DivUIOp)

    def __mod__(self, other: int) -> Int:
        if other & (other - 1) == 0:
            return self & (other - 1)
        return _apply(self, other, lambda a, b: a % b, arith.RemUIOp)

    def __divmod__(self, other: int) -> tuple[Int, Int]:
        return self // other, self % other

    def __and__(self, other: Int | int) -> Int:
        if 0 in (self.known, Int(other).known):
            return Int(0)
        return _apply(self, other, lambda a, b: a & b, arith.AndIOp)

    def __or__(self, other: Int | int) -> Int:
        return _apply(self, other, lambda a, b: a | b, arith.OrIOp, neutral=0)

    def __xor__(self, other: Int | int) -> Int:
        return _apply(self, other, lambda a, b: a ^ b, arith.XOrIOp, neutral=0)

    def __lshift__(self, other: int) -> Int:
        return _apply(self, other, lambda a, b: a << b, arith.ShLIOp, neutral=0)

    def __rshift__(self, other: int) -> Int:
        return _apply(self, other, lambda a, b: a >> b, arith.ShRUIOp, neutral=0)

    def __radd__(self, other: int) -> Int:
        return self + other

    def __rmul__(self, other: int) -> Int:
        return self * other

    def below(self, bound: Int | int) -> ir.Value:
        """Returns whether 0 <= self < bound, as an i1; the comparison is unsigned, so negative numbers fail it."""
        return arith.cmpi(arith.CmpIPredicate.ult, self.ir, Int(bound).ir)

    def equals(self, other: Int | int) -> ir.Value:
        """Returns whether both are equal, as an i1."""
        return arith.cmpi(arith.CmpIPredicate.eq, self.ir, Int(other).ir)

    def where(self, condition: ir.Value | None, otherwise: Int | int) -> Int:
        """Returns `self` if the condition holds (None: always), else `otherwise`."""
        return self if condition is None else Int(arith.select(condition, self.ir, Int(otherwise).ir))

    def index(self) -> ir.Value:
        """Returns the number as MLIR's index."""
        return arith.index_castui(ir.IndexType.get(), self.ir)

    def wide(self) -> ir.Value:
        """Returns the number as an i64."""
        return arith.extui(ir.IntegerType.get_signless(64), self.ir)


def constant(number: int, bits: int = 32) -> ir.Value:
    """Returns a constant integer of the kernel."""
    return arith.constant(ir.IntegerType.get_signless(bits), number)


def both(*conditions: ir.Value | None) -> ir.Value | None:
    """Returns the conjunction of the conditions (None: always true)."""
    met = [condition for condition in conditions if condition is not None]
    result = met[0] if met else None
    for condition in met[1:]:
        result = arith.andi(result, condition)
    return result


def _apply(
    left: Int, right: Int | int, fold: Callable[[int, int], int], op: type[ir.OpView], neutral: int | None = None
) -> Int:
    right = Int(right)
    if isinstance(left.value, int) and isinstance(right.value, int):
        return Int(fold(left.value, right.value))
    if neutral is not None and right.known == neutral:
        return left
    if neutral is not None and left.known == neutral and op in (arith.AddIOp, arith.MulIOp, arith.OrIOp, arith.XOrIOp):
        return right
    return Int(op(left.ir, right.ir).result)
