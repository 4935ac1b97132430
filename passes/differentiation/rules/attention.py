"""Derivative of attention."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ....dialects.stepwell.attention import UNBOUNDED, AttentionOp
from ....dialects.stepwell.elementwise import GreaterOp
from ....dialects.stepwell.normalization import SoftmaxOp
from ....dialects.stepwell.reduction import ReduceMaxOp
from ...graph.values import constant, dtype_of
from ...ir.values import shape_of
from ..build import add, broadcast, compare, matmul, mul, reshape, select, sub, total
from ..derivative import DERIVATIVE, Gradients


@DERIVATIVE.attach(AttentionOp)
def attention(op: AttentionOp, gradient: ir.Value) -> Gradients:
    """scale * s @ k, scale * s' @ q, p' @ g and s, with the weights p, and s = p * (h - sum(h * p)), h = g @ v'

    The weights are computed again. Heads that share keys and values add up their gradients.
    """
    weights = _weights(op)
    batch, heads = shape_of(op.query)[:2]
    key_heads, keys = shape_of(op.key)[1:3]
    shared = heads // key_heads

    def scores() -> ir.Value:
        slopes = matmul(gradient, _repeated(op.value, shared), transpose_rhs=True)
        return mul(weights, sub(slopes, total(mul(slopes, weights), [3])))

    def unmasked() -> ir.Value:
        found = scores()
        if op.mask is not None and dtype_of(op.mask) == np.bool_:
            found = select(op.mask, found, 0)
        return mul(found, op.scale)

    def summed(value: ir.Value) -> ir.Value:
        if shared == 1:
            return value
        split = reshape(value, (batch, key_heads, shared, keys, shape_of(value)[3]))
        return total(split, [2], keepdims=False)

    return (
        lambda: matmul(unmasked(), _repeated(op.key, shared)),
        lambda: summed(matmul(unmasked(), op.query, transpose_lhs=True)),
        lambda: summed(matmul(weights, gradient, transpose_lhs=True)),
        scores,
    )


def _weights(op: AttentionOp) -> ir.Value:
    shared = shape_of(op.query)[1] // shape_of(op.key)[1]
    scores = mul(matmul(op.query, _repeated(op.key, shared), transpose_rhs=True), op.scale)
    if op.mask is not None:
        is_bool = dtype_of(op.mask) == np.bool_
        scores = select(op.mask, scores, op.masked) if is_bool else add(scores, op.mask)
    if min(op.before, op.after) < UNBOUNDED:
        length, keys = shape_of(scores)[2:]
        distance = np.arange(keys) - np.arange(length)[:, None]
        scores = select(constant((distance <= op.after) & (-distance <= op.before)), scores, -math.inf)
    weights = SoftmaxOp(scores, axis=3).result
    if not op.zero_empty:
        return weights
    greatest = ReduceMaxOp(scores, axes=(3,), keepdims=True).result
    return select(compare(GreaterOp, greatest, -math.inf), weights, 0)


def _repeated(value: ir.Value, shared: int) -> ir.Value:
    """[batch, heads, ..] --> [batch, heads * shared, ..], each head `shared` times in a row"""
    if shared == 1:
        return value
    batch, heads, *rest = shape_of(value)
    split = reshape(value, (batch, heads, 1, *rest))
    return reshape(broadcast(split, (batch, heads, shared, *rest)), (batch, heads * shared, *rest))
