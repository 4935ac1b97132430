"""Random choices from a counter: the bits of an element are a hash of its index, a key, and the number of the choice.

They are the same for any number of threads and any order of computation, and can be computed again in a backward pass.
The hash is that of https://github.com/skeeto/hash-prospector (lowbias32), applied to the index, and again to the sum of
that and the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ..dialects.stepwell.elementwise import AddOp, GreaterEqualOp, MulOp, ShiftRightOp, XorOp
from ..runtime.training_step import KEY
from .build import cast, constant, emit

__all__ = ["KEY", "kept"]

_BITS = np.dtype(np.uint32)
# Shifts and factors of lowbias32, from the Hash Prospector (https://github.com/skeeto/hash-prospector).
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B))
_LAST = 16
_STREAM = 0x9E3779B9
"""2**32 divided by the golden ratio: its multiples are spread evenly."""


def kept(key: ir.Value, stream: int, shape: Sequence[int], share: float) -> ir.Value:
    """Bools that are true with a probability of `share`.

    Args:
        key: an i64 scalar; each key gives other choices.
        stream: the number of the random choice in the program.
        shape: the shape of the result.
        share: the probability.
    """
    own = _hash(emit(AddOp, cast(key, _BITS), _number(stream * _STREAM)))
    bits = _hash(emit(AddOp, _hash(_index(shape)), own))
    return emit(GreaterEqualOp, bits, _number(round((1 - share) * (1 << 32))))


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
