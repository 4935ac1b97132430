"""Attention as the contractions and the softmax that it is made of."""

from __future__ import annotations

import math

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, MulOp, SelectOp
from ....dialects.stepwell.movement import ReshapeOp
from ....dialects.stepwell.normalization import AttentionOp, SoftmaxOp
from ...rewriting import Pattern, Refusal, Replacement
from ..values import is_float, scalar_like, shape_of


class SplitAttention(Pattern[AttentionOp]):
    """attention(q, k, v, mask) {scale} --> matmul(softmax(matmul(q * scale, transpose(k)) + mask), v)"""

    root = AttentionOp

    def rewrite(self, op: AttentionOp) -> Replacement:
        query, key, value = shape_of(op.query), shape_of(op.key), shape_of(op.value)
        if query is None or key is None or value is None:
            return Refusal("the shapes are not static")
        batch, heads, length, depth = query
        # Scaling the query costs less than scaling the scores.
        scaled = MulOp(op.query, scalar_like(op.scale, op.query)).result
        # Query heads that share a key head are more rows of one matrix.
        rows = heads // key[1] * length
        joined = _reshaped(scaled, query, (batch, key[1], rows, depth))
        scores = MatmulOp(joined, op.key, transpose_rhs=True).result
        full = (batch, heads, length, key[2])
        scores = _masked(_reshaped(scores, (batch, key[1], rows, key[2]), full), op.mask)
        weights = _reshaped(SoftmaxOp(scores, axis=-1).result, full, (batch, key[1], rows, key[2]))
        result = MatmulOp(weights, op.value).result
        return _reshaped(result, (batch, key[1], rows, value[3]), (batch, heads, length, value[3]))


def _masked(scores: ir.Value, mask: ir.Value | None) -> ir.Value:
    if mask is None:
        return scores
    if is_float(mask):
        return AddOp(scores, mask).result
    return SelectOp(mask, scores, scalar_like(-math.inf, scores)).result


def _reshaped(value: ir.Value, old: tuple[int, ...], new: tuple[int, ...]) -> ir.Value:
    return value if old == new else ReshapeOp(value, shape=new).result
