"""The pass `stepwell-merge-convolutions`: merges sums of convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp
from ....dialects.stepwell.elementwise import AddOp
from ....dialects.stepwell.movement import PadOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Replacement, apply_patterns, defining_op, has_one_use
from ..values import dtype_of, is_fixed, static_shape


@register
@dataclass(frozen=True)
class MergeConvolutionsPass(Pass):
    """Compute a sum of convolutions of one input as one convolution, whose weight is the sum of their weights.

    Some networks are trained with several branches that are summed but need only one at run time (RepVGG, MobileOne). A
    smaller kernel is treated as a larger one with zeros around it.

    ```mlir
    %0 = "stepwell.conv"(%x, %v) {pads = [0, 0, 0, 0], ...} : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>)
    %1 = "stepwell.conv"(%x, %w) {pads = [1, 1, 1, 1], ...} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>)
    %2 = "stepwell.add"(%0, %1) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
    // -->
    %v1 = "stepwell.pad"(%v) {low = [0, 0, 1, 1], high = [0, 0, 1, 1]} : (tensor<4x3x1x1xf32>) -> tensor<4x3x3x3xf32>
    %u = "stepwell.add"(%v1, %w) : (tensor<4x3x3x3xf32>, tensor<4x3x3x3xf32>) -> tensor<4x3x3x3xf32>
    %2 = "stepwell.conv"(%x, %u) {pads = [1, 1, 1, 1], ...} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>)
    ```

    Preconditions: weights and biases are parameters, constants or computed from these.
    """

    name = "stepwell-merge-convolutions"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the pattern to a fixed point."""
        apply_patterns(op, (MergeConvolutions(),), state)


class MergeConvolutions(Pattern[AddOp]):
    """conv(x, v, a) + conv(x, w, b) --> conv(x, v + w, a + b), also with another term: (y + conv(..)) + conv(..)"""

    root = AddOp

    def rewrite(self, op: AddOp) -> Replacement:
        if static_shape(op.lhs) != static_shape(op.rhs):
            return None
        for term, other in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
            conv = _convolution(term)
            if conv is None:
                continue
            merged = _merged(conv, _convolution(other))
            if merged is not None:
                return merged
            between = defining_op(other, AddOp) if has_one_use(other) else None
            if between is None or static_shape(between.lhs) != static_shape(between.rhs):
                continue
            for inner, rest in ((between.lhs, between.rhs), (between.rhs, between.lhs)):
                merged = _merged(conv, _convolution(inner))
                if merged is not None:
                    return AddOp(rest, merged).result
        return None


def _convolution(value: ir.Value) -> ConvOp | None:
    """The convolution with fixed weights whose only use is `value`; None otherwise."""
    conv = defining_op(value, ConvOp) if has_one_use(value) else None
    if conv is None or not is_fixed(conv.weight) or not (conv.bias is None or is_fixed(conv.bias)):
        return None
    return conv


def _merged(first: ConvOp, second: ConvOp | None) -> ir.Value | None:
    """The sum of two convolutions as one; None if their windows do not line up."""
    if second is None or first.operation == second.operation or first.input != second.input:
        return None
    if (first.strides, first.group, first.layout) != (second.strides, second.group, second.layout):
        return None
    if any(dtype_of(conv.weight) != dtype_of(conv.result) for conv in (first, second)):
        return None  # products of bytes are summed in wider integers, but weights of bytes would be summed in bytes
    small, large = sorted((first, second), key=lambda conv: sum(static_shape(conv.weight) or ()))
    around = _kernel_padding(small, large)
    if around is None:
        return None
    low, high = around
    weight = small.weight
    if any(low) or any(high):
        weight = PadOp(weight, low=(0, 0, *low), high=(0, 0, *high)).result
    biases = [conv.bias for conv in (small, large) if conv.bias is not None]
    bias = [AddOp(*biases).result] if len(biases) == 2 else biases
    return ConvOp(small.input, AddOp(weight, large.weight).result, *bias, **large.attribute_values()).result


def _kernel_padding(small: ConvOp, large: ConvOp) -> tuple[list[int], list[int]] | None:
    """The zeros to add before and after the smaller kernel, per dimension; None if the kernels do not line up."""
    shapes = static_shape(small.weight), static_shape(large.weight)
    if shapes[0] is None or shapes[1] is None or shapes[0][:2] != shapes[1][:2]:
        return None
    rank = len(large.strides)
    low, high = [], []
    for axis, (size, whole) in enumerate(zip(shapes[0][2:], shapes[1][2:], strict=True)):
        dilation = large.dilations[axis]
        if size > 1 and small.dilations[axis] != dilation:
            return None
        before, after = (large.pads[side] - small.pads[side] for side in (axis, rank + axis))
        if before < 0 or after < 0 or before % dilation or after % dilation:
            return None
        low.append(before // dilation)
        high.append(after // dilation)
        if low[-1] + size + high[-1] != whole:
            return None
    return low, high
