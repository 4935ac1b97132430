"""Derivatives of ops that read and write single rows, as the iterations of loops do."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.movement import RowOp, WithRowOp
from ..build import zeros
from ..derivative import DERIVATIVE, Gradients


@DERIVATIVE.attach(RowOp)
def row(op: RowOp, gradient: ir.Value) -> Gradients:
    """zeros with the row g, None"""
    return (lambda: WithRowOp(zeros(op.input), gradient, op.index).result, None)


@DERIVATIVE.attach(WithRowOp)
def with_row(op: WithRowOp, gradient: ir.Value) -> Gradients:
    """g with a row of zeros, the row of g, None"""
    return (
        lambda: WithRowOp(gradient, zeros(op.row), op.index).result,
        lambda: RowOp(gradient, op.index).result,
        None,
    )
