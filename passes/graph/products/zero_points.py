"""Products of bytes with zero points, computed by products of the bytes themselves.

    sum (a - p) (b - q) = sum a b - p (sum b - K q) - q sum a

Kernels multiply ui8 by i8, so bytes of the other type are shifted by 128 together with their zero points. The second
operand is fixed, so its sums are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise import AddOp, BitcastOp, MulOp, NegOp, SubOp, XorOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import PadOp, ReshapeOp, TransposeOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ..values import constant, dtype_of, is_fixed, rank_of, static_shape
from .quantized_values import Quantized, contents_of, is_one

_I32 = np.dtype(np.int32)

_Contents = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _Bytes:
    """Bytes of the type that kernels multiply, and their zero point in i32.

    Attributes:
        value: the bytes.
        zero: the zero point.
        is_neutral: whether the zero point is known to be 0.
        known: the zero point if it is a single value that is known, else None.
    """

    value: ir.Value
    zero: ir.Value
    is_neutral: bool
    known: int | None


def product_obstacle(op: MatmulOp, left: Quantized, right: Quantized) -> str:
    """The reason why a matrix product cannot be computed on bytes; "" if it can be."""
    if reason := _types_obstacle(left, right) or _weight_obstacle(right):
        return reason
    if rank_of(op.lhs) < 2 or rank_of(op.rhs) != 2:
        return "the operands are not a matrix, or a batch of them, and a matrix"
    inner, outer = (-2 if op.transpose_lhs else -1), (-1 if op.transpose_rhs else -2)
    if ir.RankedTensorType(op.lhs.type).is_dynamic_dim(rank_of(op.lhs) + inner):
        return "the length of the sums is not known"
    for side, quantized, along in (("left", left, inner), ("right", right, outer)):
        for word, values in (("scale", quantized.scale), ("zero point", quantized.zero)):
            if _varies(quantized, values, along):
                return f"the {side} operand has more than one {word} along the sums"
    if op.transpose_lhs and not (is_one(left.zero) and is_one(left.scale)):
        return "the left operand is transposed and quantised per row"
    return ""


def convolution_obstacle(op: ConvOp, left: Quantized, right: Quantized, parameters: _Contents) -> str:
    """The reason why a convolution cannot be computed on bytes; "" if it can be."""
    if reason := _types_obstacle(left, right) or _weight_obstacle(right):
        return reason
    if op.layout != "channels_first":
        return "the channels are the last dimension"
    if not is_one(left.zero) or not is_one(left.scale):
        return "the input has more than one scale or zero point"
    if any(_varies(right, right.scale, axis) for axis in range(1, rank_of(op.weight))):
        return "the weight has more than one scale for an output channel"
    if _has_neutral(right, np.int8, parameters) or (is_one(right.zero) and op.group == 1):
        return ""
    return "the weight has a zero point for each output channel, or for several groups"


def _types_obstacle(left: Quantized, right: Quantized) -> str:
    for side, quantized in (("left", left), ("right", right)):
        if not quantized.is_bytes:
            return f"the {side} operand has numbers of {quantized.dtype.name}, not bytes"
    return ""


def _weight_obstacle(right: Quantized) -> str:
    return "" if is_fixed(right.numbers) else "the right operand is computed in every run"


def _varies(quantized: Quantized, values: ir.Value | None, axis: int) -> bool:
    """Returns whether zero points or scales are, or may be, more than one along an axis."""
    if values is not None and static_shape(values) is None:
        return True
    shape = quantized.spread_shape(values)
    return bool(shape) and shape[axis] != 1


def multiplied(op: MatmulOp, left: Quantized, right: Quantized, parameters: _Contents) -> ir.Value:
    """Computes a matrix product without scales, in i32; there must be no `product_obstacle`."""
    lhs, rhs = _unsigned(left, parameters), _signed(right, parameters)
    unsigned = _transposed(lhs.value) if op.transpose_lhs else lhs.value
    total = MatmulOp(unsigned, rhs.value, transpose_rhs=op.transpose_rhs).result
    depth = 1 if op.transpose_rhs else 0
    columns = spread(right, rhs.zero, as_list=True)
    if not lhs.is_neutral:
        sums = ReduceSumOp(_wide(rhs.value), axes=(depth,), keepdims=False).result
        count = ir.RankedTensorType(rhs.value.type).shape[depth]
        sums = SubOp(sums, MulOp(columns, constant(np.array(count, _I32))).result).result
        total = SubOp(total, MulOp(spread(left, lhs.zero), sums).result).result
    if not rhs.is_neutral:
        sums = ReduceSumOp(_wide(unsigned), axes=(rank_of(unsigned) - 1,), keepdims=True).result
        total = SubOp(total, MulOp(columns, sums).result).result
    return total


def convolved(op: ConvOp, left: Quantized, right: Quantized, bias: ir.Value | None, parameters: _Contents) -> ir.Value:
    """Computes a convolution without scales, in i32; there must be no `convolution_obstacle`.

    The padding has the value of the input's zero point. That zero point adds the same amount to every sum, so it
    becomes part of the bias. The weight's zero point adds the sum of the window's elements, which is the same for all
    output channels.
    """
    input, weight = _unsigned(left, parameters), _signed(right, parameters)
    unsigned, (_, channels, *kernel) = input.value, ir.RankedTensorType(weight.value.type).shape
    spatial = len(kernel)
    if any(op.pads):
        unsigned = _padded(input, (0, 0, *op.pads[:spatial]), (0, 0, *op.pads[spatial:]))
    if not input.is_neutral:
        sums = ReduceSumOp(_wide(weight.value), axes=tuple(range(1, spatial + 2)), keepdims=False).result
        if not weight.is_neutral:
            count = constant(np.array(channels * math.prod(kernel), _I32))
            sums = SubOp(sums, MulOp(spread(right, weight.zero), count).result).result
        taken = NegOp(MulOp(spread(left, input.zero), sums).result).result
        bias = taken if bias is None else AddOp(bias, taken).result
    attributes = {"strides": op.strides, "dilations": op.dilations, "pads": (0,) * (2 * spatial)}
    total = ConvOp(unsigned, weight.value, bias, group=op.group, **attributes).result
    if weight.is_neutral:
        return total
    seen = ReduceSumOp(_wide(unsigned), axes=(1,), keepdims=True).result
    ones = constant(np.ones((1, 1, *kernel), _I32))
    around = ConvOp(seen, ones, None, group=1, **attributes).result
    return SubOp(total, MulOp(spread(right, weight.zero), around).result).result


def spread(quantized: Quantized, values: ir.Value, *, as_list: bool = False) -> ir.Value:
    """Zero points or scales with the moves of their integers applied, a single one as a scalar.

    Args:
        quantized: the integers.
        values: the zero points or scales.
        as_list: whether several values keep only the dimension along which they vary; else they broadcast with the
            integers.
    """
    found = quantized.spread_shape(values)
    if not found:
        return ReshapeOp(values, shape=()).result if rank_of(values) else values
    if quantized.moves:
        missing = rank_of(quantized.numbers) - rank_of(values)
        full = (*[1] * missing, *ir.RankedTensorType(values.type).shape)
        values = ReshapeOp(values, shape=full).result if missing else values
        for move in reversed(quantized.moves):
            values = type(move)(values, **move.attribute_values()).operation.results[0]
    return ReshapeOp(values, shape=(math.prod(found),)).result if as_list and rank_of(values) > 1 else values


def _padded(input: _Bytes, low: tuple[int, ...], high: tuple[int, ...]) -> ir.Value:
    """Pads the bytes with their zero point: `pad(x, p)`, or `pad(x - p, 0) + p` if p is computed.

    Bytes wrap around, so adding p restores them exactly.
    """
    if input.known is not None:
        return PadOp(input.value, low=low, high=high, value=float(input.known)).result
    zero = ReshapeOp(input.zero, shape=()).result if rank_of(input.zero) else input.zero
    start = CastOp(zero, dtype=np.dtype(np.uint8)).result
    beyond = PadOp(SubOp(input.value, start).result, low=low, high=high, value=0.0).result
    return AddOp(beyond, start).result


def _unsigned(quantized: Quantized, parameters: _Contents) -> _Bytes:
    """Bytes as ui8: signed bytes are shifted up by 128."""
    return _bytes(quantized, np.uint8, 128, parameters)


def _signed(quantized: Quantized, parameters: _Contents) -> _Bytes:
    """Bytes as i8: unsigned bytes are shifted down by 128."""
    return _bytes(quantized, np.int8, -128, parameters)


def _bytes(quantized: Quantized, kind: type, shift: int, parameters: _Contents) -> _Bytes:
    value, zero, contents = quantized.moved(), quantized.zero, contents_of(quantized.zero, parameters)
    start = constant(np.zeros((), _I32)) if zero is None else _wide(zero)
    if dtype_of(value) != kind:
        bit = constant(np.array(128, np.uint8).view(dtype_of(value)))
        value = BitcastOp(XorOp(value, bit).result, dtype=np.dtype(kind)).result
        start = AddOp(start, constant(np.array(shift, _I32))).result
        contents = None if contents is None else contents.astype(np.int32) + shift
    known = None if contents is None or contents.size != 1 else int(contents.reshape(()))
    return _Bytes(value, start, contents is not None and not contents.any(), known)


def _has_neutral(quantized: Quantized, kind: type, parameters: _Contents) -> bool:
    """Returns whether the zero point of bytes is known to be 0 after conversion to the type `kind`."""
    contents = contents_of(quantized.zero, parameters)
    neutral = 0 if quantized.dtype == kind else 128 if quantized.dtype == np.uint8 else -128
    return contents is not None and bool((contents == neutral).all())


def _wide(value: ir.Value) -> ir.Value:
    return value if dtype_of(value) == _I32 else CastOp(value, dtype=_I32).result


def _transposed(value: ir.Value) -> ir.Value:
    last = rank_of(value) - 1
    return TransposeOp(value, permutation=(*range(last - 1), last, last - 1)).result
