"""sin, cos and tan.

Source: S. Moshier, Cephes Mathematical Library.
"""

from __future__ import annotations

import math as python_math

from mlir import ir
from mlir.dialects import arith

from .arithmetic import Arithmetic

# sin(r) = r + r**3 * s(r**2) and cos(r) = 1 - r**2 / 2 + r**4 * c(r**2), the highest power first: sinf.c and sin.c.
_SIN_F32 = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS_F32 = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN_F64 = (
    1.58962301576546568060e-10,
    -2.50507477628578072866e-8,
    2.75573136213857245213e-6,
    -1.98412698295895385996e-4,
    8.33333333332211858878e-3,
    -1.66666666666666307295e-1,
)
_COS_F64 = (
    -1.13585365213876817300e-11,
    2.08757008419747316778e-9,
    -2.75573141792967388112e-7,
    2.48015872888517045348e-5,
    -1.38888888888730564116e-3,
    4.16666666666665929218e-2,
)
# pi / 2 in three parts for fma.
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)


def sin(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The sine within 2 ulp for magnitudes up to 2**44 in f32 and 2**17 in f64; beyond, some number in [-1, 1]."""
    rest, quarter = _reduced(on, x)
    return _of_quarter(on, rest, quarter)


def cos(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The cosine, as precise as the sine."""
    rest, quarter = _reduced(on, x)
    return _of_quarter(on, rest, arith.addi(quarter, on.integer(1)))


def tan(on: Arithmetic, x: ir.Value) -> ir.Value:
    """The tangent as the ratio of sine and cosine, within 3 ulp where these are precise."""
    rest, quarter = _reduced(on, x)
    sine, cosine = (_of_quarter(on, rest, item) for item in (quarter, arith.addi(quarter, on.integer(1))))
    return arith.divf(sine, cosine)


def _reduced(on: Arithmetic, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """r and the integer n of `x = n * pi / 2 + r`; computed in f64, because an f32 has too few bits for a large n."""
    wide = Arithmetic(on.like(ir.F64Type.get()))
    value = x if on.is_double else arith.extf(on.like(ir.F64Type.get()), x)
    whole, count = wide.nearest(value, 2 / python_math.pi)
    for part in _HALF_PI:
        value = wide.fma(whole, wide.number(-part), value)
    value = wide.clamp(value, -1.0, 1.0)
    if on.is_double:
        return value, count
    i32 = ir.IntegerType.get_signless(32)
    return arith.truncf(x.type, value), arith.trunci(on.like(i32), count)


def _of_quarter(on: Arithmetic, rest: ir.Value, quarter: ir.Value) -> ir.Value:
    """sin(quarter * pi / 2 + rest)."""
    square = arith.mulf(rest, rest)
    sine = on.fma(arith.mulf(square, rest), on.polynomial(square, _SIN_F64 if on.is_double else _SIN_F32), rest)
    tail = on.polynomial(square, _COS_F64 if on.is_double else _COS_F32)
    cosine = on.fma(arith.mulf(square, square), tail, on.fma(square, on.number(-0.5), on.number(1)))
    is_odd = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(quarter, on.integer(1)), on.integer(0))
    value = arith.select(is_odd, cosine, sine)
    is_negative = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(quarter, on.integer(2)), on.integer(0))
    return arith.select(is_negative, arith.negf(value), value)
