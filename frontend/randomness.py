"""Random choices from a counter: the bits of an element are a hash of its index, a key, and the number of the choice.

They are the same for any number of threads and any order of computation, and can be computed again in a backward pass.
The hash is that of https://github.com/skeeto/hash-prospector (lowbias32), applied to the index, and again to the sum of
that and the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ..dialects.stepwell.elementwise import (
    AddOp,
    CosOp,
    GreaterEqualOp,
    LessOp,
    LogOp,
    MulOp,
    SelectOp,
    ShiftRightOp,
    SqrtOp,
    SubOp,
    XorOp,
)
from ..runtime.training_step import KEY
from .build import cast, constant, emit, scalar

__all__ = ["KEY", "dropped", "kept", "normal", "random_bits", "uniform"]

_BITS = np.dtype(np.uint32)
# Shifts and factors of lowbias32, from the Hash Prospector (https://github.com/skeeto/hash-prospector).
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B))
_LAST = 16
_STREAM = 0x9E3779B9
"""2**32 divided by the golden ratio: its multiples are spread evenly."""


def random_bits(key: ir.Value, stream: int, shape: Sequence[int]) -> ir.Value:
    """Random bits, ui32.

    Args:
        key: an i64 scalar; each key gives other bits.
        stream: the number of the random choice in the program.
        shape: the shape of the result.
    """
    own = _hash(emit(AddOp, cast(key, _BITS), _number(stream * _STREAM)))
    return _hash(emit(AddOp, _hash(_index(shape)), own))


def kept(bits: ir.Value, share: float) -> ir.Value:
    """Bools that are true with a probability of `share`, from random bits."""
    if share <= 0:
        return emit(LessOp, bits, _number(0))
    return emit(GreaterEqualOp, bits, _number(round((1 - share) * (1 << 32))))


def dropped(bits: ir.Value, value: ir.Value, share: float) -> ir.Value:
    """Elements of a value, a share of which is 0 at random; the others are divided by 1 - share."""
    scaled = emit(MulOp, value, scalar(1 / (1 - share) if share < 1 else 0, value))
    return emit(SelectOp, kept(bits, 1 - share), scaled, scalar(0, value))


def uniform(bits: ir.Value, kind: np.dtype) -> ir.Value:
    """Numbers from 0 up to, but not including, 1, from random bits: multiples of 2**-24, which float32 has exactly."""
    number = cast(emit(ShiftRightOp, bits, _number(8)), np.float32)
    return cast(emit(MulOp, number, _float(2**-24)), kind)


def normal(bits: ir.Value, others: ir.Value, kind: np.dtype) -> ir.Value:
    """Numbers of the standard normal distribution, from two tensors of random bits (Box and Muller 1958).

    sqrt(-2 log(1 - u)) cos(2 pi v), with u and v uniform
    """
    first, second = (uniform(item, np.dtype(np.float32)) for item in (bits, others))
    radius = emit(SqrtOp, emit(MulOp, emit(LogOp, emit(SubOp, _float(1), first)), _float(-2)))
    return cast(emit(MulOp, radius, emit(CosOp, emit(MulOp, second, _float(2 * np.pi)))), kind)


def _float(number: float) -> ir.Value:
    return constant(np.array(number, np.float32))


def _index(shape: Sequence[int]) -> ir.Value:
    """The index of each element of a tensor, from 0, in row-major order."""
    total, stride = constant(np.zeros((), _BITS)), 1
    for axis in reversed(range(len(shape))):
        along = (np.arange(shape[axis], dtype=np.uint64) * stride).astype(_BITS)
        total = emit(AddOp, constant(along.reshape(-1, *[1] * (len(shape) - axis - 1))), total)
        stride *= shape[axis]
    return total


def _hash(value: ir.Value) -> ir.Value:
    for shift, factor in _ROUNDS:
        value = emit(MulOp, emit(XorOp, value, emit(ShiftRightOp, value, _number(shift))), _number(factor))
    return emit(XorOp, value, emit(ShiftRightOp, value, _number(_LAST)))


def _number(value: int) -> ir.Value:
    return constant(np.array(value & 0xFFFFFFFF, _BITS))
