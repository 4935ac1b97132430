"""Copies the left-hand sides of products that are stored by columns, as those of gradients of weights are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.movement import ReshapeOp, TransposeOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..values import dtype_of, is_fixed, static_shape

LEAST_EXTENT = 64
"""Minimum number of rows and of columns of a product for which a copy of an operand pays."""

_LEAST_DEPTH = 256
"""Minimum number of terms of each sum, for which the copy pays: with fewer, the columns stay in the cache."""

MOST_IN_BLOCKS = 1 << 14
"""Maximum number of elements of a result that is faster as a sum over blocks of terms than with a copy: the products of
128 x 128 x 3,136 numbers take 0.8 ms in blocks and 1.1 ms with a copy, those of 512 x 64 x 8,192 take 10 and 6 ms."""

_MOST_TERMS, _FEWEST_TERMS = 256, 32
"""Numbers of terms in a block, whose operands stay in the cache for all tiles of the result."""


@dataclass(frozen=True)
class CopyColumns(Pattern[MatmulOp]):
    """matmul(x, y) {transpose_lhs} --> matmul(transpose(x), y), transpose(matmul(transpose(y), x)), or a sum of blocks

    A kernel that reads a left-hand side by columns takes a number from each of many lines of the cache, and its
    right-hand side is not packed. The products 256 x 1,024 x 1,024 of a gradient take 4.4 ms with the copy and 9.2 ms
    without (one thread, Rocket Lake). The second form is chosen if it moves fewer elements,
    and a sum over blocks of terms if the result is small.
    """

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        left, right = static_shape(op.lhs), static_shape(op.rhs)
        if not op.transpose_lhs or op.transpose_rhs or left is None or right is None:
            return None
        if is_fixed(op.lhs) or is_fixed(op.rhs) or dtype_of(op.lhs) != "float32" or op.depth >= 0:
            return Refusal("the operands are not two computed matrices of float32")
        if math.prod(left[:-2]) != 1 or math.prod(right[:-2]) != 1:
            return Refusal("the product has a batch")
        (depth, rows), columns = left[-2:], right[-1]
        shape = (*(1,) * (max(len(left), len(right)) - 2), rows, columns)
        x, y = op.lhs, op.rhs
        if rows * columns <= MOST_IN_BLOCKS:
            block = next(size for size in range(min(_MOST_TERMS, depth), 0, -1) if depth % size == 0)
            if block == depth or block < _FEWEST_TERMS:
                return Refusal("the terms do not divide into blocks")
            x, y = (
                ReshapeOp(value, shape=(depth // block, block, width)).result
                for value, width in ((x, rows), (y, columns))
            )
            parts = MatmulOp(x, y, transpose_lhs=True).result
            return ReshapeOp(ReduceSumOp(parts, axes=(0,), keepdims=False).result, shape=shape).result
        if min(rows, columns) < LEAST_EXTENT or depth < _LEAST_DEPTH:
            return Refusal("the product is too small to pay for a copy")
        x, y = (ReshapeOp(value, shape=(depth, width)).result for value, width in ((x, rows), (y, columns)))
        if depth * rows <= depth * columns + rows * columns:
            made = MatmulOp(_turned(x), y).result
        else:
            made = _turned(MatmulOp(_turned(y), x).result)
        return ReshapeOp(made, shape=shape).result


def _turned(value: ir.Value) -> ir.Value:
    return TransposeOp(value, permutation=(1, 0)).result
