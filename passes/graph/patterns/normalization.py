"""Patterns that fuse normalisations written as several ops into one op."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.elementwise import (
    AddOp,
    DivOp,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    PowOp,
    ReciprocalOp,
    RsqrtOp,
    SigmoidOp,
    SqrtOp,
    SubOp,
)
from ....dialects.stepwell.movement import ReshapeOp
from ....dialects.stepwell.normalization import LayerNormOp, LogSoftmaxOp, RmsNormOp, SoftmaxOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op, has_one_use
from ..values import is_fixed, rank_of, splat_of, static_shape


class FuseNorm(Pattern):
    """The quotient of a value and the root of its mean square plus epsilon.

    d = x - mean(x); d / sqrt(mean(d * d) + e) --> layer_norm(x)
    x / sqrt(mean(x * x) + e)                  --> rms_norm(x)

    The root may be a factor, as rsqrt. The means are over trailing dimensions.
    """

    root = (DivOp, MulOp)

    def rewrite(self, op: DivOp | MulOp) -> Replacement:
        for value, root in ((op.lhs, op.rhs), (op.rhs, op.lhs))[: 1 if isinstance(op, DivOp) else 2]:
            total = _under_root(root, inverse=isinstance(op, MulOp))
            mean = None if total is None else defining_op(total.lhs, ReduceMeanOp)
            if total is None or mean is None or not _is_square_of(mean.input, value):
                continue
            epsilon = splat_of(total.rhs)
            if epsilon is None:
                return Refusal("epsilon is not a constant number")
            axes = _axes(mean)
            if not axes or axes != tuple(range(axes[0], rank_of(value))) or not mean.keepdims:
                return Refusal("the mean is not over the trailing dimensions")
            centred = _centred_value(value, axes)
            if centred is not None:
                return LayerNormOp(centred, axis=axes[0], epsilon=float(epsilon)).result
            return RmsNormOp(value, axis=axes[0], epsilon=float(epsilon)).result
        return None


def _under_root(value: ir.Value, inverse: bool) -> AddOp | None:
    """The sum whose root, or inverse root, is `value`."""
    if not inverse:
        root = defining_op(value, SqrtOp)
        return None if root is None else defining_op(root.input, AddOp)
    rsqrt = defining_op(value, RsqrtOp)
    return None if rsqrt is None else defining_op(rsqrt.input, AddOp)


def _is_square_of(square: ir.Value, value: ir.Value) -> bool:
    product, power = defining_op(square, MulOp), defining_op(square, PowOp)
    if product is not None:
        return _same_difference(product.lhs, value) and _same_difference(product.rhs, value)
    return power is not None and splat_of(power.rhs) == 2 and _same_difference(power.lhs, value)


def _same_difference(first: ir.Value, second: ir.Value) -> bool:
    """Returns whether two values are the same, or computed by the same subtraction."""
    if first == second:
        return True
    lhs, rhs = defining_op(first, SubOp), defining_op(second, SubOp)
    return lhs is not None and rhs is not None and lhs.lhs == rhs.lhs and lhs.rhs == rhs.rhs


def _centred_value(value: ir.Value, axes: tuple[int, ...]) -> ir.Value | None:
    """The x for which `value` is x - mean(x) over `axes`; None if there is none."""
    difference = defining_op(value, SubOp)
    mean = None if difference is None else defining_op(difference.rhs, ReduceMeanOp)
    if difference is None or mean is None or mean.input != difference.lhs or not mean.keepdims:
        return None
    return difference.lhs if _axes(mean) == axes else None


def _axes(op: ReduceMeanOp | ReduceMaxOp | ReduceSumOp) -> tuple[int, ...]:
    rank = rank_of(op.input)
    return tuple(sorted(axis % rank for axis in op.axes))


class NormScale(Pattern[MulOp]):
    """layer_norm(x) * s | rms_norm(x) * s --> layer_norm(x, s) | rms_norm(x, s), if s is a parameter"""

    root = MulOp

    def rewrite(self, op: MulOp) -> Replacement:
        for value, scale in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            norm = defining_op(value, LayerNormOp) or defining_op(value, RmsNormOp)
            if norm is None or norm.scale is not None or (isinstance(norm, LayerNormOp) and norm.bias is not None):
                continue
            factor = _over_normalized(norm, scale)
            if factor is None or not has_one_use(value):
                return Refusal("the factor is not a parameter over the normalised dimensions")
            return type(norm)(norm.input, factor, axis=norm.axis, epsilon=norm.epsilon).result
        return None


class NormBias(Pattern[AddOp]):
    """layer_norm(x, s) + b --> layer_norm(x, s, b), if b is a parameter"""

    root = AddOp

    def rewrite(self, op: AddOp) -> Replacement:
        for value, bias in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            norm = defining_op(value, LayerNormOp)
            if norm is None or norm.bias is not None:
                continue
            term = _over_normalized(norm, bias)
            if term is None or not has_one_use(value):
                return Refusal("the term is not a parameter over the normalised dimensions")
            return LayerNormOp(norm.input, norm.scale, term, axis=norm.axis, epsilon=norm.epsilon).result
        return None


def _over_normalized(norm: LayerNormOp | RmsNormOp, value: ir.Value) -> ir.Value | None:
    """`value` with at most the rank of the normalised dimensions if it is a parameter over them; None otherwise."""
    shape, inputs = static_shape(value), static_shape(norm.input)
    if shape is None or inputs is None or not is_fixed(value):
        return None
    normalized = inputs[norm.axis % len(inputs) :]
    if len(shape) <= len(normalized):
        return value
    leading, trailing = shape[: -len(normalized)], shape[-len(normalized) :]
    return ReshapeOp(value, shape=trailing).result if set(leading) == {1} else None


class FuseSoftmax(Pattern[DivOp]):
    """e = exp(x - max(x)); e / sum(e) --> softmax(x)"""

    root = DivOp

    def rewrite(self, op: DivOp) -> Replacement:
        total, exponential = defining_op(op.rhs, ReduceSumOp), defining_op(op.lhs, ExpOp)
        if total is None or exponential is None or total.input != op.lhs or not total.keepdims:
            return None
        axes = _axes(total)
        if len(axes) != 1:
            return Refusal("the sum is over several dimensions")
        shifted = defining_op(exponential.input, SubOp)
        largest = None if shifted is None else defining_op(shifted.rhs, ReduceMaxOp)
        if shifted is None or largest is None or largest.input != shifted.lhs or not largest.keepdims:
            return Refusal("the maximum is not subtracted before the exponential")
        return SoftmaxOp(shifted.lhs, axis=axes[0]).result if _axes(largest) == axes else None


class FuseLogSoftmax(Pattern[LogOp]):
    """log(softmax(x)) --> log_softmax(x)"""

    root = LogOp

    def rewrite(self, op: LogOp) -> Replacement:
        inner = defining_op(op.input, SoftmaxOp)
        return None if inner is None else LogSoftmaxOp(inner.input, axis=inner.axis).result


class FuseSigmoid(Pattern[ReciprocalOp]):
    """reciprocal(exp(-x) + 1) --> sigmoid(x)"""

    root = ReciprocalOp

    def rewrite(self, op: ReciprocalOp) -> Replacement:
        total = defining_op(op.input, AddOp)
        exponential = None if total is None or splat_of(total.rhs) != 1 else defining_op(total.lhs, ExpOp)
        negative = None if exponential is None else defining_op(exponential.input, NegOp)
        return None if negative is None else SigmoidOp(negative.input).result


PATTERNS: tuple[Pattern, ...] = (FuseNorm(), NormScale(), NormBias(), FuseSoftmax(), FuseLogSoftmax(), FuseSigmoid())
