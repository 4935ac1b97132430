"""Heads of attention: dimensions of rows become dimensions of heads, and back."""

from __future__ import annotations

from mlir import ir

from ..dialects.stepwell.movement import DynamicReshapeOp
from .build import emit, integers, transposed

HEADS_FIRST = (0, 2, 1, 3)
"""The permutation between [batch, row, head, depth] and [batch, head, row, depth]."""


def split_heads(value: ir.Value, heads: int, depth: int = -1) -> ir.Value:
    """[batch, row, heads * depth] as [batch, head, row, depth]; the depth follows from the number of heads if -1."""
    return transposed(emit(DynamicReshapeOp, value, integers([0, 0, heads, depth])), HEADS_FIRST)


def merged_heads(value: ir.Value) -> ir.Value:
    """[batch, head, row, depth] as [batch, row, heads * depth]."""
    return emit(DynamicReshapeOp, transposed(value, HEADS_FIRST), integers([0, 0, -1]))
