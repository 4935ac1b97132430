"""Weights stored along the contracted dimension, as Hopper's tensor cores require for float32 (tf32)."""

from __future__ import annotations

import math

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, MatmulOp
from ....dialects.stepwell.elementwise.arithmetic import AddOp
from ....dialects.stepwell.movement import ReshapeOp, TransposeOp
from ....dialects.stepwell.windows import CHANNELS_LAST
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..products.reduce_precision import is_rounded, rounded
from ..values import dtype_of, is_fixed, static_shape

# Lines must start at multiples of 16 bytes; columns must fill whole panels of unpacked operands.
_DEPTHS, _COLUMNS = 4, 32
_UNFIT = Refusal("the copy engine cannot load such lines, or the columns do not fill whole panels")


class TransposeMatmulWeight(Pattern[MatmulOp]):
    """matmul(x, w) --> matmul(x, transpose(w)) {transpose_rhs}, for a fixed w, rounded to tf32 at compile time"""

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        shape = static_shape(op.rhs)
        if is_transposed(op) or not is_fixed(op.rhs) or dtype_of(op.rhs).name != "float32":
            return None
        if shape is None or len(shape) != 2 or op.transpose_lhs:
            return Refusal("the weight is not a matrix of static shape, or the left operand is transposed")
        depth, columns = reversed(shape) if op.transpose_rhs else shape
        if depth % _DEPTHS or columns % _COLUMNS:
            return _UNFIT
        weight = op.rhs if op.transpose_rhs else TransposeOp(op.rhs, permutation=(1, 0)).result
        return MatmulOp(op.lhs, rounded(weight), transpose_rhs=True).result


class TransposePointwiseWeight(Pattern[ConvOp]):
    """conv(x, w, b) --> add(matmul(x, w) {transpose_rhs}, b), if the kernel is one pixel"""

    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        shape = static_shape(op.weight)
        if shape is None or not is_fixed(op.weight) or dtype_of(op.weight).name != "float32":
            return None
        columns, depth, *kernel = shape
        if math.prod(kernel) * op.group != 1 or set(op.strides) != {1} or any(op.pads) or op.layout != CHANNELS_LAST:
            return Refusal("the convolution is not a plain product")
        if depth % _DEPTHS or columns % _COLUMNS:
            return _UNFIT
        weight = rounded(ReshapeOp(op.weight, shape=(columns, depth)).result)
        result: ir.Value = MatmulOp(op.input, weight, transpose_rhs=True).result
        return result if op.bias is None else AddOp(result, op.bias).result


def is_transposed(op: MatmulOp) -> bool:
    """Returns whether a weight has the layout that these patterns produce."""
    return op.transpose_rhs and is_rounded(op.rhs)
