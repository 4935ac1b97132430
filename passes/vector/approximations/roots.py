"""Powers computed from roots without division."""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith

from .arithmetic import Arithmetic

# Constant for a first guess of x ** -0.25 by integer arithmetic on its bits; its error is at most 3.2 percent.
_FOURTH_ROOT_BITS = 0x4F584000


def three_quarters_below(on: Arithmetic, x: ir.Value) -> ir.Value:
    """`x ** -0.75` within 4 ulp, for positive normal f32 numbers and infinity, without square root or division.

    Two Newton steps for the inverse fourth root y, `y *= 1.25 - x * y**4 / 4`, and one for its cube.
    """
    quarter = arith.mulf(x, on.number(0.25))
    root = on.floats(arith.subi(on.integer(_FOURTH_ROOT_BITS), arith.shrui(on.bits(x), on.integer(2))))
    for _ in range(2):
        square = arith.mulf(root, root)
        step = on.fma(arith.negf(quarter), arith.mulf(square, square), on.number(1.25))
        root = arith.mulf(root, step)
    square = arith.mulf(root, root)
    off = arith.mulf(x, arith.mulf(square, square))
    value = arith.mulf(arith.mulf(square, root), on.fma(off, on.number(-0.75), on.number(1.75)))
    return arith.select(on.equal(x, on.number(python_math.inf)), on.number(0), value)
