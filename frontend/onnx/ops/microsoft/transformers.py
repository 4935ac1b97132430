"""Transformer operators of ONNX Runtime's optimiser: attention with its projections and masks, embeddings, norms.

The operators are those of the domain com.microsoft; ONNX Runtime's behaviour is the reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.attention import AttentionOp
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp, SqueezeOp
from .....dialects.stepwell.normalization import LayerNormOp, RmsNormOp
from .....passes.graph.values import dimension
from ....build import (
    added,
    cast,
    dtype,
    emit,
    gathered,
    integers,
    joined,
    known_dim,
    numbered,
    part_along,
    rank,
    scalar,
    shape,
    summed,
    tabulate,
    transposed,
)
from ....errors import NodeError, UnsupportedError
from ....heads import HEADS_FIRST, merged_heads, split_heads
from ....rotary import rotated
from ...nodes.node import Node
from ...nodes.registry import imports

_MS = "com.microsoft"
_FILTER = -10000.0
"""The default of `mask_filter_value` (ONNX Runtime, docs/ContribOperators.md)."""


@imports("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=_MS)
def skip_norm(node: Node, input: ir.Value, skip: ir.Value, scale: ir.Value, *others: ir.Value | None) -> tuple:
    """The norm of input + skip + bias, and that sum as the fourth output."""
    is_simple = node.op_type == "SkipSimplifiedLayerNormalization"
    shift, bias = (None, *others, None)[:2] if is_simple else (*others, None, None)[:2]
    total = added(emit(ew.AddOp, input, skip), bias)
    epsilon = node.attribute("epsilon", 1e-12)
    if is_simple:
        return emit(RmsNormOp, total, scale, epsilon=epsilon), None, None, total
    return emit(LayerNormOp, total, scale, shift, epsilon=epsilon), None, None, total


@imports("EmbedLayerNormalization", domain=_MS)
def embed_layer_norm(
    node: Node,
    words: ir.Value,
    segments: ir.Value | None,
    word_table: ir.Value,
    position_table: ir.Value,
    segment_table: ir.Value | None,
    scale: ir.Value,
    shift: ir.Value,
    mask: ir.Value | None = None,
    positions: ir.Value | None = None,
) -> tuple:
    """The norm of the sum of embeddings, the number of words of each row that the mask keeps, and the sum."""
    if positions is None:
        first = part_along(position_table, 0, 0, known_dim(words, 1, "the number of words"))
        total = emit(ew.AddOp, gathered(word_table, words, 0), first)
    else:
        total = emit(ew.AddOp, gathered(word_table, words, 0), gathered(position_table, positions, 0))
    if segments is not None and segment_table is not None:
        total = emit(ew.AddOp, total, gathered(segment_table, segments, 0))
    normal = emit(LayerNormOp, total, scale, shift, epsilon=node.attribute("epsilon", 1e-12))
    counted = words if mask is None else mask
    numbers = emit(ew.MulOp, counted, scalar(0, counted)) if mask is None else mask
    return normal, summed(cast(numbers, np.int32), 1), total


@imports("RotaryEmbedding", domain=_MS)
def rotary_embedding(node: Node, input: ir.Value, positions: ir.Value, cosines: ir.Value, sines: ir.Value) -> ir.Value:
    """Rotates pairs of elements by angles that grow with the position."""
    if node.attribute("is_packed_batching", 0):
        raise UnsupportedError("packs sequences of different lengths into one (is_packed_batching)")
    if node.attribute("scale", 1.0) != 1:
        raise UnsupportedError("has a scale other than 1, which is not supported")
    width, heads = node.attribute("rotary_embedding_dim", 0), node.attribute("num_heads", 0)
    is_flat = rank(input) == 3
    if is_flat:
        size = (width and heads) or None
        depth = 2 * known_dim(cosines, 1, "the depth of a head") if size is None else -1
        split = [0, 0, heads, -1] if size is not None else [0, 0, -1, depth]
        input = transposed(emit(DynamicReshapeOp, input, integers(split)), HEADS_FIRST)
    if rank(positions) == 1:
        numbers = numbered(known_dim(input, 2, "the number of positions"))
        positions = emit(ExpandDimsOp, emit(ew.AddOp, numbers, positions), axes=(0,))
    angles = [emit(ExpandDimsOp, gathered(table, positions, 0), axes=(1,)) for table in (cosines, sines)]
    result = rotated(input, *angles, is_interleaved=bool(node.attribute("interleaved", 0)))
    if not is_flat:
        return result
    return merged_heads(result)


@imports("Attention", domain=_MS)
def projected_attention(
    node: Node,
    input: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None = None,
    mask: ir.Value | None = None,
    past: ir.Value | None = None,
    scores: ir.Value | None = None,
    past_length: ir.Value | None = None,
) -> tuple:
    """Attention on three projections of the input with one stored weight; keys and values are cached as one tensor."""
    if past_length is not None:
        raise UnsupportedError("shares a buffer of past keys (past_sequence_length), which is not supported")
    return attention_of_projection(node, added(emit(MatmulOp, input, weight), bias), mask, past, scores)


def attention_of_projection(
    node: Node, projection: ir.Value, mask: ir.Value | None, past: ir.Value | None, scores: ir.Value | None
) -> tuple:
    """Attention on query, key and value that are parts of one tensor."""
    if node.attribute("do_rotary", 0):
        raise UnsupportedError("rotates queries and keys (do_rotary), which is not supported")
    heads = node.attribute("num_heads")
    whole = known_dim(projection, 2, "the width of the projections")
    widths = node.attribute("qkv_hidden_sizes") or (whole // 3,) * 3
    starts = np.cumsum((0, *widths)).tolist()
    query, key, value = (
        _with_heads(part_along(projection, 2, start, stop), heads) for start, stop in itertools.pairwise(starts)
    )
    if past is not None:
        kept = [emit(SqueezeOp, part_along(past, 0, index, index + 1), axes=(0,)) for index in range(2)]
        key, value = (joined(list(pair), 2) for pair in zip(kept, (key, value), strict=True))
    result = _attention(node, (query, key, value), mask, scores)
    if not any(node.outputs[1:]):
        return (result,)
    return result, joined([emit(ExpandDimsOp, item, axes=(0,)) for item in (key, value)])


@imports("MultiHeadAttention", domain=_MS)
def multi_head_attention(
    node: Node,
    query: ir.Value,
    key: ir.Value | None = None,
    value: ir.Value | None = None,
    bias: ir.Value | None = None,
    mask: ir.Value | None = None,
    scores: ir.Value | None = None,
    past_key: ir.Value | None = None,
    past_value: ir.Value | None = None,
) -> tuple:
    """Attention on given projections; past keys and values precede the new ones, and the concatenations are outputs."""
    if key is None or value is None or rank(query) != 3 or rank(key) not in (3, 4):
        raise UnsupportedError("has query, key and value in one tensor")
    items = [query, key, value]
    if bias is not None:
        if any(rank(item) != 3 for item in items):
            raise UnsupportedError("has a bias for keys and values that have their heads already")
        widths = [known_dim(item, 2, "the width of query, key and value") for item in items]
        starts = np.cumsum((0, *widths)).tolist()
        items = [
            emit(ew.AddOp, item, part_along(bias, 0, start, stop))
            for item, (start, stop) in zip(items, itertools.pairwise(starts), strict=True)
        ]
    query, key, value = (_with_heads(item, node.attribute("num_heads")) for item in items)
    key = key if past_key is None else joined([past_key, key], 2)
    value = value if past_value is None else joined([past_value, value], 2)
    return _attention(node, (query, key, value), mask, scores), key, value


def _with_heads(value: ir.Value, heads: int) -> ir.Value:
    """[batch, length, heads * depth] --> [batch, heads, length, depth]; a tensor of rank 4 is returned unchanged."""
    if rank(value) == 4:
        return value
    return split_heads(value, heads)


def _attention(node: Node, items: Sequence[ir.Value], mask: ir.Value | None, scores: ir.Value | None) -> ir.Value:
    """Attention result as [batch, length, heads * depth]; masked scores get a large negative number added."""
    query, key, value = items
    filter_ = node.attribute("mask_filter_value", _FILTER)
    added_ = None
    if mask is not None:
        added_ = emit(ew.SelectOp, _visible(mask, key), scalar(0, query), scalar(filter_, query))
    if scores is not None:
        added_ = scores if added_ is None else emit(ew.AddOp, added_, scores)
    if node.attribute("unidirectional", 0):
        rows, columns = (known_dim(item, 2, "the lengths of query and key") for item in (query, key))
        last = tabulate(ew.AddOp, numbered(rows, 0, 2), dimension(columns - rows))
        seen = tabulate(ew.LessEqualOp, numbered(columns, 1, 2), last)
        triangle = tabulate(ew.SelectOp, seen, scalar(0, query), scalar(filter_, query))
        added_ = triangle if added_ is None else emit(ew.AddOp, added_, triangle)
    scale = node.attribute("scale", 0.0) or known_dim(query, 3, "the depth of a head") ** -0.5
    result = emit(AttentionOp, query, key, value, added_, scale=scale)
    return merged_heads(result)


def _visible(mask: ir.Value, key: ir.Value) -> ir.Value:
    """A mask of integers as bools that broadcast to [batch, heads, length, key length]."""
    keys = known_dim(key, 2, "the length of the key")
    if rank(mask) == 1:
        if shape(mask)[0] != shape(key)[0]:
            raise UnsupportedError("has masks that are starts and ends of sequences")
        numbers = tabulate(ew.CastOp, numbered(keys), dtype=dtype(mask))
        return emit(ew.LessOp, numbers, emit(ExpandDimsOp, mask, axes=(1, 2, 3)))
    if rank(mask) not in (2, 3):
        raise UnsupportedError("has a mask of four dimensions")
    if shape(mask)[-1] != keys:
        raise NodeError(f"has a mask for {shape(mask)[-1]} keys, but {keys} keys")
    holds = emit(ew.GreaterOp, mask, scalar(0, mask))
    return emit(ExpandDimsOp, holds, axes=(1, 2) if rank(mask) == 2 else (1,))
