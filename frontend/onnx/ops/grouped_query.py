"""GroupQueryAttention of ONNX Runtime: attention with a key-value cache, as text generators use it.

The current length of each sequence must be known: it determines the positions of new keys and the shape of the cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import SelectOp
from ....dialects.stepwell.movement import DynamicReshapeOp, PadOp
from ....dialects.stepwell.normalization import AttentionOp
from ...build import emit, gathered, integers, joined, known_dim, part_along, rank, scalar, transposed
from ...errors import NodeError, UnsupportedError
from ..node import Node
from ..registry import imports
from .rotary import rotated

_HEADS_FIRST = (0, 2, 1, 3)


@imports("GroupQueryAttention", domain="com.microsoft")
def group_query_attention(
    node: Node,
    query: ir.Value,
    key: ir.Value | None,
    value: ir.Value | None,
    past_key: ir.Value | None,
    past_value: ir.Value | None,
    lengths: ir.Value,
    total: ir.Value,
    cosines: ir.Value | None = None,
    sines: ir.Value | None = None,
    positions: ir.Value | None = None,
    bias: ir.Value | None = None,
) -> tuple[ir.Value, ...]:
    """Attention on [batch, length, heads * depth]; the cached keys and values of all calls are the other outputs."""
    for name in ("softcap", "smooth_softmax"):
        if node.attribute(name, 0) not in (0, -1):
            raise UnsupportedError(f"attribute '{name}' is not supported")
    heads, shared = node.attribute("num_heads"), node.attribute("kv_num_heads")
    query, key, value = _split(query, key, value, heads, shared)
    length = known_dim(query, 2, "the length of the query")
    (whole,) = node.integers(total, "total_sequence_length")
    ends = np.array(node.integers(lengths, "seqlens_k")) + 1
    kept = [0 if length == whole else int(end) - length for end in ends]
    if min(kept) < 0:
        raise NodeError(f"has {length} new keys, but sequences of length {', '.join(map(str, ends))} including these")
    places = np.array(kept)[:, None] + np.arange(length)
    if node.attribute("do_rotary", 0):
        if cosines is None or sines is None:
            raise NodeError("rotates queries and keys (do_rotary), but has no tables of cosines and sines")
        at = node.table("positions", places) if positions is None else positions
        angles = [_unsqueezed(gathered(table, at, 0)) for table in (cosines, sines)]
        is_interleaved = bool(node.attribute("rotary_interleaved", 0))
        query, key = (rotated(item, *angles, is_interleaved=is_interleaved) for item in (query, key))
    key, value = (_extended(past, new, kept, whole) for past, new in ((past_key, key), (past_value, value)))
    mask = _mask(node, places, known_dim(key, 2, "the length of the keys"))
    if bias is not None:
        mask = emit(
            SelectOp, mask, part_along(bias, 3, 0, known_dim(key, 2, "the length of the keys")), scalar(-np.inf, query)
        )
    scale = node.attribute("scale", 0.0) or known_dim(query, 3, "the depth of a head") ** -0.5
    result = emit(AttentionOp, query, key, value, mask, scale=scale)
    return emit(DynamicReshapeOp, transposed(result, _HEADS_FIRST), integers([0, 0, -1])), key, value


def _split(
    query: ir.Value, key: ir.Value | None, value: ir.Value | None, heads: int, shared: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Query, key and value as [batch, heads, length, depth]; they may be packed in one tensor."""
    if key is None or value is None:
        depth = known_dim(query, 2, "the width of query, key and value") // (heads + 2 * shared)
        ends = (0, heads * depth, (heads + shared) * depth, (heads + 2 * shared) * depth)
        query, key, value = (part_along(query, 2, start, stop) for start, stop in itertools.pairwise(ends))
    counts = (heads, shared, shared)
    items = (
        transposed(emit(DynamicReshapeOp, item, integers([0, 0, count, -1])), _HEADS_FIRST)
        for item, count in zip((query, key, value), counts, strict=True)
    )
    query, key, value = items
    return query, key, value


def _unsqueezed(angles: ir.Value) -> ir.Value:
    """[batch, length, pairs] --> [batch, 1, length, pairs]"""
    return emit(DynamicReshapeOp, angles, integers([0, 1, -1, known_dim(angles, rank(angles) - 1, "the pairs")]))


def _extended(past: ir.Value | None, new: ir.Value, kept: Sequence[int], whole: int) -> ir.Value:
    """Concatenates the past up to each sequence's length and the new part, padded with zeros."""
    if past is None:
        return _filled(new, whole)
    extent = max(whole, known_dim(past, 2, "the length of the past keys"))
    if len(set(kept)) == 1:
        return _filled(joined([part_along(past, 2, 0, kept[0]), new], 2) if kept[0] else new, extent)
    rows = []
    for index, count in enumerate(kept):
        own, added = (part_along(item, 0, index, index + 1) for item in (past, new))
        rows.append(_filled(joined([part_along(own, 2, 0, count), added], 2) if count else added, extent))
    return joined(rows)


def _filled(value: ir.Value, extent: int) -> ir.Value:
    missing = extent - known_dim(value, 2, "the length of the keys")
    if missing == 0:
        return value
    if missing < 0:
        return part_along(value, 2, 0, extent)
    return emit(PadOp, value, low=(0, 0, 0, 0), high=(0, 0, missing, 0))


def _mask(node: Node, places: np.ndarray, keys: int) -> ir.Value:
    """Mask of the keys that each query sees: all keys up to its own position, or a window of them."""
    distances = places[:, :, None] - np.arange(keys)
    window = node.attribute("local_window_size", -1)
    holds = (distances >= 0) & ((distances < window) | (window < 0))
    return node.table("seen", holds[:, None])
