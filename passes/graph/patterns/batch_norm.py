"""Batch norms and per-channel factors and terms, folded into the weights of the preceding op.

The new weights are ops on parameters, which are computed once, at compile time.
"""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ....dialects.stepwell.elementwise import AddOp, DivOp, MulOp, SqrtOp, SubOp
from ....dialects.stepwell.movement import BroadcastToOp, ReshapeOp
from ....dialects.stepwell.normalization import BatchNormOp
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op, has_one_use
from ..values import is_fixed, is_float, rank_of, scalar_like, static_shape


class BatchNormToMulAdd(Pattern[BatchNormOp]):
    """batch_norm(x, scale, bias, mean, variance) --> x * f + (bias - mean * f), f = scale / sqrt(variance + epsilon)

    If these are not parameters, they stay apart: (x - mean) * f + bias, which a preceding kernel can compute too.
    """

    root = BatchNormOp

    def rewrite(self, op: BatchNormOp) -> Replacement:
        shape = static_shape(op.scale)
        if shape is None:
            return None
        deviation = SqrtOp(AddOp(op.variance, scalar_like(op.epsilon, op.variance))).result
        factor = DivOp(op.scale, deviation).result
        if all(map(is_fixed, (op.scale, op.bias, op.mean, op.variance))):
            term = SubOp(op.bias, MulOp(op.mean, factor)).result
            factor, term = _over_channels(op, shape[0], factor, term)
            return AddOp(MulOp(op.input, factor), term).result
        mean, factor, bias = _over_channels(op, shape[0], op.mean, factor, op.bias)
        return AddOp(MulOp(SubOp(op.input, mean), factor), bias).result


def _over_channels(op: BatchNormOp, channels: int, *values: ir.Value) -> list[ir.Value]:
    """Vectors in the shape in which they are broadcast over the input."""
    if op.layout != "channels_first":
        return list(values)
    shape = (channels, *[1] * (rank_of(op.input) - 2))
    return [ReshapeOp(value, shape=shape).result for value in values]


class FactorIntoConv(Pattern):
    """conv(x, w, b) * c | conv(x, w, b) / c --> conv(x, w * c, b * c), for a fixed per-channel c

    The same for conv_transpose and (without a bias) for matmul.
    """

    root = (MulOp, DivOp)

    def rewrite(self, op: MulOp | DivOp) -> Replacement:
        value, factor = _contraction_and_fixed(op)
        if value is None or factor is None:
            return None
        contraction = _foldable(value, op)
        if contraction is None or isinstance(contraction, Refusal):
            return contraction
        vector = _per_channel(contraction, factor)
        if vector is None:
            return Refusal("the factor is not one number per channel")
        apply, (lhs, weight, *bias) = type(op), contraction.operand_values()
        assert weight is not None
        scaled = apply(weight, _along_weight(contraction, weight, vector)).result
        biases = [None if value is None else apply(value, vector).result for value in bias]
        return type(contraction)(lhs, scaled, *biases, **contraction.attribute_values()).result


class TermIntoConv(Pattern):
    """conv(x, w, b) + c | conv(x, w, b) - c --> conv(x, w, b + c), for a fixed per-channel c"""

    root = (AddOp, SubOp)

    def rewrite(self, op: AddOp | SubOp) -> Replacement:
        value, term = _contraction_and_fixed(op)
        if value is None or term is None:
            return None
        contraction = _foldable(value, op)
        if contraction is None or isinstance(contraction, Refusal):
            return contraction
        if isinstance(contraction, MatmulOp):
            return None
        vector = _per_channel(contraction, term)
        if vector is None:
            return Refusal("the term is not one number per channel")
        bias = contraction.bias
        if bias is None:
            bias = scalar_like(0, vector)
        total = type(op)(bias, vector).result
        if rank_of(total) == 0:
            total = BroadcastToOp(total, shape=(_channels(contraction),)).result
        operands = (contraction.input, contraction.weight, total)
        return type(contraction)(*operands, **contraction.attribute_values()).result


def _contraction_and_fixed(op: AddOp | SubOp | MulOp | DivOp) -> tuple[ir.Value | None, ir.Value | None]:
    """The operand that a contraction computes, and the other one if that is fixed; otherwise None, None."""
    if not is_float(op.result):
        return None, None
    orders = ((op.lhs, op.rhs), (op.rhs, op.lhs))
    for value, other in orders[: 2 if isinstance(op, AddOp | MulOp) else 1]:
        if not isinstance(value.owner, ir.Block) and value.owner.name in _NAMES and is_fixed(other):
            return value, other
    return None, None


def _foldable(value: ir.Value, op: ir.OpView) -> ConvOp | ConvTransposeOp | MatmulOp | Refusal | None:
    contraction = next((found for kind in _KINDS if (found := defining_op(value, kind)) is not None), None)
    if contraction is None or value.type != op.operation.results[0].type:
        return None
    if not has_one_use(value):
        return Refusal("the result has other readers")
    operands = contraction.operand_values()
    if not all(operand is None or is_fixed(operand) for operand in operands[1:]):
        return Refusal("the weight is not a parameter")
    if isinstance(contraction, ConvTransposeOp) and contraction.group != 1:
        return Refusal("the weight of a grouped conv_transpose has no dimension for all output channels")
    return contraction


def _channels(op: ConvOp | ConvTransposeOp | MatmulOp) -> int:
    shape = ir.RankedTensorType(op.result.type).shape
    return shape[_channel_axis(op)]


def _channel_axis(op: ConvOp | ConvTransposeOp | MatmulOp) -> int:
    rank = rank_of(op.result)
    return rank - 1 if isinstance(op, MatmulOp) or op.layout == "channels_last" else 1


def _per_channel(op: ConvOp | ConvTransposeOp | MatmulOp, value: ir.Value) -> ir.Value | None:
    """`value` as a vector over the channels, or as a scalar; None if it varies along other dimensions."""
    shape, rank, channels = static_shape(value), rank_of(op.result), _channels(op)
    if shape is None or len(shape) > rank:
        return None
    aligned = (1,) * (rank - len(shape)) + shape
    if any(dim != 1 for axis, dim in enumerate(aligned) if axis != _channel_axis(op)):
        return None
    wanted = (channels,) if aligned[_channel_axis(op)] == channels and channels != 1 else ()
    return value if shape == wanted else ReshapeOp(value, shape=wanted).result


def _along_weight(op: ConvOp | ConvTransposeOp | MatmulOp, weight: ir.Value, vector: ir.Value) -> ir.Value:
    """A vector over the channels, shaped so that it broadcasts with the weight."""
    shape, rank = static_shape(vector), rank_of(weight)
    if not shape:
        return vector
    if isinstance(op, MatmulOp):
        return ReshapeOp(vector, shape=(*shape, 1)).result if op.transpose_rhs else vector
    leading = (1, *shape) if isinstance(op, ConvTransposeOp) else shape
    return ReshapeOp(vector, shape=(*leading, *[1] * (rank - len(leading)))).result


_KINDS = (ConvOp, ConvTransposeOp, MatmulOp)
_NAMES = {kind.OPERATION_NAME for kind in _KINDS}

PATTERNS: tuple[Pattern, ...] = (BatchNormToMulAdd(), FactorIntoConv(), TermIntoConv())
