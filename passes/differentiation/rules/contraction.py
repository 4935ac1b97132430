"""Derivatives of matrix products."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ...ir.values import shape_of
from ..build import count, matmul, product_of_columns, reshape
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


def _rows(value: ir.Value) -> ir.Value:
    """[.., M, K] --> [.. * M, K]"""
    shape = shape_of(value)
    return reshape(value, (count(shape[:-1]), shape[-1]))
