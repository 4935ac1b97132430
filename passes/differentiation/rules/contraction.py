"""Derivatives of matrix products."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.blocks import BlockMatmulOp
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import ShiftLeftOp, ShiftRightOp
from ...graph.values import dtype_of, scalar_like
from ...ir.values import shape_of
from ..build import cast, concat, count, matmul, mul, neg, pad, part, product_of_columns, reshape, sub, total
from ..derivative import DERIVATIVE, Gradients


@DERIVATIVE.attach(MatmulOp)
def matrix_product(op: MatmulOp, gradient: ir.Value) -> Gradients:
    """g @ B', A' @ g: the products of a batch are summed up by the product itself if one matrix serves all of them"""
    lhs, rhs, left, right = op.lhs, op.rhs, op.transpose_lhs, op.transpose_rhs

    def of_lhs() -> ir.Value:
        if left:
            return matmul(rhs, gradient, transpose_lhs=right, transpose_rhs=True)
        return matmul(gradient, rhs, transpose_rhs=not right)

    def of_rhs() -> ir.Value:
        shape = shape_of(rhs)
        if not left and count(shape[:-2]) == 1:
            first, second = _rows(lhs), _rows(gradient)
            return reshape(product_of_columns(*((second, first) if right else (first, second))), shape)
        if right:
            return matmul(gradient, lhs, transpose_lhs=True, transpose_rhs=left)
        return matmul(lhs, gradient, transpose_lhs=not left)

    return of_lhs, of_rhs


@DERIVATIVE.attach(BlockMatmulOp)
def product_of_blocks(op: BlockMatmulOp, gradient: ir.Value) -> Gradients:
    """g @ w, None, sum(h * (n - z)), -sum(h) * s with w = (n - z) * s and h = g' @ x

    The matrix w is computed from its bits. The rounding of the input counts as the identity, as is usual in training.
    """
    depth = shape_of(op.input)[-1]

    def numbers() -> ir.Value:
        """[N, blocks, block]: the numbers less those that stand for 0."""
        columns, blocks, size = shape_of(op.weight)
        parts = []
        for shift in range(0, 8, op.bits):
            high = ShiftLeftOp(op.weight, scalar_like(8 - op.bits - shift, op.weight)).result
            low = ShiftRightOp(high, scalar_like(8 - op.bits, high)).result
            parts.append(reshape(low, (columns, blocks, size, 1)))
        found = cast(reshape(concat(parts, 3), (columns, blocks, size * len(parts))), dtype_of(op.input))
        return sub(found, 1 << (op.bits - 1) if op.zeros is None else _of_blocks(op, op.zeros))

    def of_input() -> ir.Value:
        matrix = mul(numbers(), _of_blocks(op, op.scales))
        columns, blocks, block = shape_of(matrix)
        return matmul(gradient, part(reshape(matrix, (columns, blocks * block)), (0, 0), (columns, depth)))

    def of_matrix() -> ir.Value:
        columns, blocks, size = shape_of(op.weight)
        block = size * 8 // op.bits
        found = product_of_columns(_rows(gradient), _rows(op.input))
        return reshape(pad(found, (0, 0), (0, blocks * block - depth)), (columns, blocks, block))

    def of_scales() -> ir.Value:
        return cast(total(mul(of_matrix(), numbers()), [2], keepdims=False), dtype_of(op.scales))

    def of_zeros() -> ir.Value:
        return neg(mul(total(of_matrix(), [2], keepdims=False), cast(op.scales, dtype_of(op.input))))

    return of_input, None, of_scales, of_zeros


def _of_blocks(op: BlockMatmulOp, value: ir.Value) -> ir.Value:
    """A number for each block, as [N, blocks, 1] in the input's element type."""
    return cast(reshape(value, (*shape_of(value), 1)), dtype_of(op.input))


def _rows(value: ir.Value) -> ir.Value:
    """[.., M, K] --> [.. * M, K]"""
    shape = shape_of(value)
    return reshape(value, (count(shape[:-1]), shape[-1]))
