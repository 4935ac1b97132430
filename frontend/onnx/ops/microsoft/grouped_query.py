"""GroupQueryAttention of ONNX Runtime: attention with a key-value cache, as text generators use it.

The total length must be known, or follow from the shapes of inputs: it is the length of the cache. Each sequence of a
batch has a length of its own. If these are known, the cache is made of slices, otherwise of elements that are gathered.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from mlir import ir

from .....dialects.dims import Dim
from .....dialects.stepwell.attention import AttentionOp
from .....dialects.stepwell.elementwise import (
    AddOp,
    AndOp,
    GreaterEqualOp,
    LessOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    SelectOp,
    SubOp,
)
from .....dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp, PadOp, ReshapeOp
from .....passes.graph.values import dimension
from .....sizes import extrema
from ....build import (
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
    tabulate,
    transposed,
)
from ....errors import NodeError, UnsupportedError
from ....heads import HEADS_FIRST, merged_heads, split_heads
from ....rotary import rotated
from ...nodes.node import Node
from ...nodes.registry import imports


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
    if node.attribute("smooth_softmax", 0) not in (0, -1):
        raise UnsupportedError("attribute 'smooth_softmax' is not supported")
    heads, shared = node.attribute("num_heads"), node.attribute("kv_num_heads")
    query, key, value = _split(query, key, value, heads, shared)
    length = known_dim(query, 2, "the length of the query")
    if node.importer.appends_caches:
        if past_key is None or past_value is None:
            raise NodeError("has no past keys and values")
        before = known_dim(past_key, 2, "the length of the past keys")
        starts = _starts(lengths, before + length)
        places = emit(SubOp, numbered(length, 1, 2), emit(SubOp, starts, dimension(before)))
        places = emit(MaximumOp, places, scalar(0, places))
        whole, kept, counts = before + length, starts, None
    else:
        starts = None
        (whole,) = node.integers(total, "total_sequence_length")
        kept, counts = _kept(node, lengths, length, whole)
        places = emit(AddOp, _column(kept, 1), numbered(length, 1, 2))
    if node.attribute("do_rotary", 0):
        if cosines is None or sines is None:
            raise NodeError("rotates queries and keys (do_rotary), but has no tables of cosines and sines")
        at = places if positions is None else positions
        angles = [_unsqueezed(gathered(table, at, 0)) for table in (cosines, sines)]
        is_interleaved = bool(node.attribute("rotary_interleaved", 0))
        query, key = (rotated(item, *angles, is_interleaved=is_interleaved) for item in (query, key))
    pairs = ((past_key, key), (past_value, value))
    if starts is not None:
        key, value = (joined([past, new], 2) for past, new in pairs if past is not None)
    elif counts is None:
        key, value = (_assembled(past, new, kept, whole) for past, new in pairs)
    else:
        key, value = (_extended(past, new, counts, whole) for past, new in pairs)
    mask = _mask(node, places, known_dim(key, 2, "the length of the keys"), starts)
    if bias is not None:
        mask = emit(
            SelectOp, mask, part_along(bias, 3, 0, known_dim(key, 2, "the length of the keys")), scalar(-np.inf, query)
        )
    scale = node.attribute("scale", 0.0) or known_dim(query, 3, "the depth of a head") ** -0.5
    # A decoder attends in f32, and reads shorter keys and values where they are stored.
    kind = np.dtype(np.float32) if node.importer.appends_caches else dtype(query)
    wide = [cast(item, kind) for item in (query, key, value)]
    result = emit(AttentionOp, *wide, mask, scale=scale, cap=node.attribute("softcap", 0.0))
    return merged_heads(cast(result, dtype(query))), key, value


def _kept(node: Node, lengths: ir.Value, length: Dim, whole: Dim) -> tuple[ir.Value, list[int] | None]:
    """The number of keys of each sequence that a call keeps, i64, and as numbers if these are known.

    Without a past they are none: a sequence shorter than the others has padding behind it.
    """
    ends = node.known(lengths)
    if ends is None or not isinstance(length, int) or not isinstance(whole, int):
        flat = cast(emit(DynamicReshapeOp, lengths, integers([-1])), np.int64)
        new = emit(SubOp, flat, emit(SubOp, dimension(length), integers(1)))
        return emit(MaximumOp, new, integers(0)), None
    kept = [0 if length == whole else int(end) + 1 - length for end in ends.reshape(-1)]
    if min(kept) < 0:
        given = ", ".join(str(end + 1) for end in ends.reshape(-1))
        raise NodeError(f"has {length} new keys, but sequences of length {given} including these")
    return integers(kept), kept


def _column(values: ir.Value, more: int) -> ir.Value:
    """A list as the first of several dimensions, the others of which have one element."""
    return emit(ExpandDimsOp, values, axes=tuple(range(1, more + 1)))


def _split(
    query: ir.Value, key: ir.Value | None, value: ir.Value | None, heads: int, shared: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Query, key and value as [batch, heads, length, depth]; they may be packed in one tensor."""
    if key is None or value is None:
        depth = known_dim(query, 2, "the width of query, key and value") // (heads + 2 * shared)
        ends = (0, heads * depth, (heads + shared) * depth, (heads + 2 * shared) * depth)
        query, key, value = (part_along(query, 2, start, stop) for start, stop in itertools.pairwise(ends))
    counts = (heads, shared, shared)
    items = (split_heads(item, count) for item, count in zip((query, key, value), counts, strict=True))
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


def _assembled(past: ir.Value | None, new: ir.Value, kept: ir.Value, whole: Dim) -> ir.Value:
    """The same as `_extended` if the numbers of kept elements are computed: each element is gathered.

    Element j of a sequence that keeps k is past[j] below k, new[j - k] below k + length, and 0 from there on.
    """
    batch, heads, length, depth = (known_dim(new, axis, "the shape of the keys") for axis in range(4))
    before = 0 if past is None else known_dim(past, 2, "the length of the past keys")
    extent, given = extrema.greatest((whole, before)), before + length
    every = new if past is None else joined([past, new], 2)
    rows = emit(ReshapeOp, transposed(every, (0, 2, 1, 3)), shape=(batch * given, heads * depth))
    place = numbered(extent, 1, 2)
    own = _column(kept, 1)
    behind = emit(AddOp, emit(SubOp, place, own), dimension(before))
    index = emit(SelectOp, emit(LessOp, place, own), place, emit(MinimumOp, behind, dimension(given - 1)))
    first = emit(MulOp, numbered(batch, 0, 2), dimension(given))
    taken = gathered(rows, emit(AddOp, index, first), 0)
    is_data = emit(LessOp, place, emit(AddOp, own, dimension(length)))
    cleared = emit(SelectOp, emit(ExpandDimsOp, is_data, axes=(2,)), taken, scalar(0, taken))
    return transposed(emit(ReshapeOp, cleared, shape=(batch, extent, heads, depth)), HEADS_FIRST)


def _filled(value: ir.Value, extent: int) -> ir.Value:
    missing = extent - known_dim(value, 2, "the length of the keys")
    if missing == 0:
        return value
    if missing < 0:
        return part_along(value, 2, 0, extent)
    return emit(PadOp, value, low=(0, 0, 0, 0), high=(0, 0, missing, 0))


def _starts(lengths: ir.Value, whole: Dim) -> ir.Value:
    """The position at which each sequence begins, i64[batch, 1], if all of them end at the same one."""
    flat = cast(emit(DynamicReshapeOp, lengths, integers([-1])), np.int64)
    return _column(emit(SubOp, dimension(whole - 1), flat), 1)


def _mask(node: Node, places: ir.Value, keys: Dim, starts: ir.Value | None) -> ir.Value:
    """Mask of the keys that each query sees: all keys up to its own position, or a window of them.

    Args:
        node: the node.
        places: the positions of queries in their sequences, [batch, length].
        keys: the number of keys.
        starts: the key at which each sequence begins, [batch, 1]; None if that is the first one for all.
    """
    numbers = numbered(keys, 3, 4)
    if starts is not None:
        numbers = emit(SubOp, numbers, emit(ExpandDimsOp, starts, axes=(2, 3)))
        distances = emit(SubOp, emit(ExpandDimsOp, places, axes=(1, 3)), numbers)
        seen = emit(AndOp, emit(GreaterEqualOp, distances, integers(0)), emit(GreaterEqualOp, numbers, integers(0)))
        window = node.attribute("local_window_size", -1)
        return seen if window < 0 else emit(AndOp, seen, emit(LessOp, distances, integers(window)))
    distances = tabulate(SubOp, emit(ExpandDimsOp, places, axes=(1, 3)), numbers)
    window = node.attribute("local_window_size", -1)
    holds = tabulate(GreaterEqualOp, distances, integers(0))
    return holds if window < 0 else tabulate(AndOp, holds, tabulate(LessOp, distances, integers(window)))
