"""Products of bytes with zero points, computed by products of the bytes themselves.

    sum (a - p) (b - q) = sum a b - p (sum b - K q) - q sum a

The dialect multiplies ui8 by i8, so bytes of the other type are shifted by 128 together with their zero points. The
second operand is stored in the model, so its sums are computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.contraction import ConvOp, MatmulOp
from .....dialects.stepwell.movement import ExpandDimsOp, PadOp, ReshapeOp
from .....dialects.stepwell.reduction import ReduceSumOp
from .....dialects.stepwell.shapes import BYTES
from ....build import cast, constant, dtype, emit, rank, scalar, shape
from ...nodes.node import Node
from .windows import NodeWindow

_F32, _I32 = np.dtype(np.float32), np.dtype(np.int32)
_VIEWS = {op.OPERATION_NAME for op in (ew.CastOp, ExpandDimsOp, ReshapeOp)}
Value = ir.Value


@dataclass(frozen=True)
class Bytes:
    """Quantised numbers.

    Attributes:
        numbers: the bytes.
        zero: their zero point, of any integer type, shaped to broadcast with them; None if it is 0.
    """

    numbers: Value
    zero: Value | None


@dataclass(frozen=True)
class Dequantized(Bytes):
    """Numbers that were quantised: `(numbers - zero) * scale`."""

    scale: Value


def dequantized(value: Value) -> Dequantized | None:
    """The bytes that a value was dequantised from as by DequantizeLinear; None if it was not, or not from bytes."""
    product = operands_of(value, ew.MulOp)
    wide = product and operands_of(product[0], ew.CastOp)
    if not product or not wide or dtype(product[1]) != _F32:
        return None
    if dtype(wide[0]) in BYTES:
        return Dequantized(wide[0], None, product[1])
    beyond = operands_of(wide[0], ew.SubOp)
    source = beyond and operands_of(beyond[0], ew.CastOp)
    if not beyond or not source or dtype(source[0]) not in BYTES:
        return None
    return Dequantized(source[0], beyond[1], product[1])


def operands_of(value: Value, op: type) -> list[Value]:
    """The operands of the op that computes a value; none if it is not of this class."""
    if isinstance(value.owner, ir.Block) or value.owner.name != op.OPERATION_NAME:
        return []
    return list(value.owner.operands)


def is_one(value: Value | None) -> bool:
    """Returns whether scales or zero points are a single value for the whole tensor."""
    return value is None or all(dim == 1 for dim in shape(value))


def may_multiply(node: Node, left: Bytes, right: Bytes) -> bool:
    """Returns whether a matrix product can be computed on bytes: `right` is stored, the length of the sums known."""
    if node.known(right.numbers) is None or rank(right.numbers) != 2 or rank(left.numbers) < 2:
        return False
    return isinstance(shape(left.numbers)[-1], int)


def multiplied(node: Node, left: Bytes, right: Bytes, transpose_rhs: bool = False) -> Value:
    """Computes the matrix product in i32; `may_multiply` must hold."""
    unsigned, p = _unsigned(left)
    signed, q = _signed(right)
    total = emit(MatmulOp, unsigned, signed, transpose_rhs=transpose_rhs)
    depth = 1 if transpose_rhs else 0
    (count,) = node.static(shape(signed)[depth : depth + 1], "the length of the sums")
    if not _is_neutral(node, left, np.uint8):
        sums = emit(ReduceSumOp, cast(signed, _I32), axes=(depth,), keepdims=False)
        sums = emit(ew.SubOp, sums, emit(ew.MulOp, q, scalar(count, q)))
        total = emit(ew.SubOp, total, emit(ew.MulOp, p, sums))
    if not _is_neutral(node, right, np.int8):
        sums = emit(ReduceSumOp, cast(unsigned, _I32), axes=(rank(unsigned) - 1,), keepdims=True)
        total = emit(ew.SubOp, total, emit(ew.MulOp, q, sums))
    return total


def may_convolve(node: Node, input: Bytes, weight: Bytes) -> bool:
    """Returns whether a convolution can be computed on bytes.

    The weight must be stored. Its zero point must be 0, or a single value with a single group.
    """
    if node.known(weight.numbers) is None or not is_one(input.zero):
        return False
    return _is_neutral(node, weight, np.int8) or (is_one(weight.zero) and node.attribute("group") == 1)


def convolved(
    node: Node, input: Bytes, weight: Bytes, bias: Value | None, window: NodeWindow, pads: tuple[int, ...]
) -> Value:
    """Computes the convolution in i32; `may_convolve` must hold.

    The padding has the value of the input's zero point. That zero point adds the same amount to every sum, so it
    becomes part of the bias. The weight's zero point adds the sum of the window's elements, which is the same for all
    output channels.
    """
    (unsigned, p), (signed, q) = _unsigned(input), _signed(weight)
    spatial = len(window.kernel)
    if any(pads):
        unsigned = _padded(node, input, unsigned, p, spatial, pads)
    has_start, has_shift = not _is_neutral(node, input, np.uint8), not _is_neutral(node, weight, np.int8)
    if has_start:
        sums = emit(ReduceSumOp, cast(signed, _I32), axes=tuple(range(1, spatial + 2)), keepdims=False)
        if has_shift:
            stored = node.known(weight.numbers)
            assert stored is not None, "may_convolve holds"
            count = constant(np.array(math.prod(stored.shape[1:]), _I32))
            sums = emit(ew.SubOp, sums, emit(ew.MulOp, _single(q), count))
        taken = emit(ew.NegOp, emit(ew.MulOp, _single(p), sums))
        bias = taken if bias is None else emit(ew.AddOp, bias, taken)
    attributes = {"strides": window.strides, "dilations": window.dilations, "pads": (0,) * (2 * spatial)}
    total = emit(ConvOp, unsigned, signed, bias, group=node.attribute("group"), **attributes)
    if not has_shift:
        return total
    seen = emit(ReduceSumOp, cast(unsigned, _I32), axes=(1,), keepdims=True)
    ones = constant(np.ones((1, 1, *window.kernel), _I32))
    return emit(ew.SubOp, total, emit(ew.MulOp, _single(q), emit(ConvOp, seen, ones, None, group=1, **attributes)))


def _padded(node: Node, input: Bytes, unsigned: Value, p: Value, spatial: int, pads: tuple[int, ...]) -> Value:
    """Pads the bytes with their zero point: `pad(x, p)`, or `pad(x - p, 0) + p` if p is computed.

    Bytes wrap around, so adding p restores them exactly.
    """
    low, high = (0, 0, *pads[:spatial]), (0, 0, *pads[spatial:])
    known = _contents(node, input.zero)
    if known is not None:
        start = int(np.asarray(known).reshape(-1)[0]) + (128 if dtype(input.numbers) == np.int8 else 0)
        return emit(PadOp, unsigned, low=low, high=high, value=float(start))
    start = cast(_single(p), np.uint8)
    return emit(ew.AddOp, emit(PadOp, emit(ew.SubOp, unsigned, start), low=low, high=high, value=0.0), start)


def _single(value: Value) -> Value:
    """Removes the dimensions of a zero point that is a single value for the whole tensor."""
    return emit(ReshapeOp, value, shape=()) if rank(value) else value


def _unsigned(value: Bytes) -> tuple[Value, Value]:
    """Bytes as ui8, and their zero point in i32: signed bytes are shifted up by 128."""
    start = _start(value)
    if dtype(value.numbers) == np.uint8:
        return value.numbers, start
    return _flipped(value.numbers, np.uint8), emit(ew.AddOp, start, scalar(128, start))


def _signed(value: Bytes) -> tuple[Value, Value]:
    """Bytes as i8, and their zero point in i32: unsigned bytes are shifted down by 128."""
    start = _start(value)
    if dtype(value.numbers) == np.int8:
        return value.numbers, start
    return _flipped(value.numbers, np.int8), emit(ew.SubOp, start, scalar(128, start))


def _start(value: Bytes) -> Value:
    return constant(np.array(0, _I32)) if value.zero is None else cast(value.zero, _I32)


def _flipped(value: Value, kind: type) -> Value:
    """Shifts bytes by 128 into the type of the other signedness, by flipping their highest bit."""
    bit = constant(np.array(128, np.uint8).view(dtype(value)))
    return emit(ew.BitcastOp, emit(ew.XorOp, value, bit), dtype=np.dtype(kind))


def _is_neutral(node: Node, value: Bytes, wanted: type) -> bool:
    """Returns whether the zero point of bytes is known to be 0 after conversion to the type `wanted`."""
    contents, kind = _contents(node, value.zero), dtype(value.numbers)
    neutral = 0 if kind == wanted else 128 if kind == np.uint8 else -128
    return contents is not None and bool((contents == neutral).all())


def _contents(node: Node, zero: Value | None) -> np.ndarray | None:
    """The contents of a zero point, in some shape; None if they are not known."""
    if zero is None:
        return np.zeros((), _I32)
    contents = node.known(zero)
    while contents is None and not isinstance(zero.owner, ir.Block) and zero.owner.name in _VIEWS:
        zero = zero.owner.operands[0]
        contents = node.known(zero)
    return contents
