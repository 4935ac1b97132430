"""ONNX's Attention operator (opset 23)."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.attention import UNBOUNDED, AttentionOp
from ....dialects.stepwell.elementwise import (
    AddOp,
    AndOp,
    GreaterEqualOp,
    LessEqualOp,
    LessOp,
    SelectOp,
    SubOp,
)
from ....dialects.stepwell.movement import ExpandDimsOp, PadOp
from ....passes.graph.values import dimension
from ...build import (
    cast,
    dtype,
    emit,
    joined,
    known_dim,
    numbered,
    rank,
    scalar,
    shape,
    tabulate,
)
from ...errors import UnsupportedError
from ...heads import merged_heads, split_heads
from ..nodes.node import Node
from ..nodes.registry import imports


@imports("Attention", since=23)
def attention(
    node: Node,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    mask: ir.Value | None = None,
    past_key: ir.Value | None = None,
    past_value: ir.Value | None = None,
    lengths: ir.Value | None = None,
) -> tuple[ir.Value, ...]:
    """Attention on [batch, heads, length, depth], or on [batch, length, heads * depth] with the numbers of heads given.

    Past keys and values precede the new ones; the concatenations are the second and third output.
    """
    if node.attribute("softcap"):
        raise UnsupportedError("limits its scores (softcap), which is not supported")
    is_flat = rank(query) == 3
    query = _with_heads(query, node.attribute("q_num_heads"))
    key, value = (_with_heads(item, node.attribute("kv_num_heads")) for item in (key, value))
    key = key if past_key is None else joined([past_key, key], 2)
    value = value if past_value is None else joined([past_value, value], 2)
    has_offset = past_key is not None or lengths is not None
    allowed = _allowed(node, query, key, past_key, lengths) if has_offset else None
    # Masks are applied when the model runs, and may exclude every key.
    may_be_empty = mask is not None or lengths is not None
    mask = _masked(allowed, None if mask is None else _padded(mask, key), query)
    scale = node.attribute("scale") or known_dim(query, 3, "the depth of a head") ** -0.5
    band = {} if has_offset else _band(node)
    result = emit(AttentionOp, query, key, value, mask, scale=scale, zero_empty=may_be_empty, **band)
    if is_flat:
        result = merged_heads(result)
    return result, key, value


def _with_heads(value: ir.Value, heads: int | None) -> ir.Value:
    """[batch, length, heads * depth] --> [batch, heads, length, depth]; a tensor of rank 4 is returned unchanged."""
    if rank(value) == 4:
        return value
    if heads is None:
        raise UnsupportedError("does not declare its numbers of heads (q_num_heads, kv_num_heads)")
    return split_heads(value, heads)


def _band(node: Node) -> dict[str, int]:
    """The numbers of keys before and after its own that a query sees, if queries and keys begin at one position."""
    left, right = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    after = ([0] if node.attribute("is_causal") else []) + ([right] if right >= 0 else [])
    return {"before": left if left >= 0 else UNBOUNDED, "after": min(after, default=UNBOUNDED)}


def _allowed(
    node: Node, query: ir.Value, key: ir.Value, past: ir.Value | None, lengths: ir.Value | None
) -> ir.Value | None:
    """Mask of the keys that each query sees by position only, [q, k] or [batch, 1, q, k]; None if it sees all keys.

    The queries come after the past keys, or at the end of the length given for their batch.
    """
    is_causal = bool(node.attribute("is_causal"))
    left, right = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    if not is_causal and lengths is None and left < 0 and right < 0:
        return None
    rows, columns = (
        known_dim(item, 2, "the lengths of query and key, for a positional mask,") for item in (query, key)
    )
    before = 0 if past is None else known_dim(past, 2, "the length of the past keys")
    # The queries are the last ones of the keys: by how much the position of a query is greater than that of a key.
    first = tabulate(AddOp, numbered(rows, 0, 2), dimension(before if lengths is None else rows * -1))
    distance, conditions = tabulate(SubOp, first, numbered(columns, 1, 2)), []
    if lengths is not None:
        lengths = emit(ExpandDimsOp, lengths, axes=(1, 2, 3))
        conditions.append(emit(LessOp, numbered(columns), lengths))
        distance = emit(AddOp, distance, lengths) if is_causal or left >= 0 or right >= 0 else distance
    conditions += [tabulate(GreaterEqualOp, distance, scalar(0, distance))] if is_causal else []
    conditions += [tabulate(LessEqualOp, distance, scalar(left, distance))] if left >= 0 else []
    conditions += [tabulate(GreaterEqualOp, distance, scalar(-right, distance))] if right >= 0 else []
    allowed = conditions[0]
    for condition in conditions[1:]:
        allowed = tabulate(AndOp, allowed, condition)
    return allowed


def _padded(mask: ir.Value, key: ir.Value) -> ir.Value:
    """Pads a mask to the length of the key; the padding excludes keys."""
    have, wanted = shape(mask)[-1], shape(key)[2]
    if have == wanted:
        return mask
    missing = known_dim(key, 2, "the length of the key") - known_dim(mask, rank(mask) - 1, "the length of the mask")
    none = (0,) * rank(mask)
    value = 0.0 if dtype(mask) == np.bool_ else -np.inf
    return emit(PadOp, mask, low=none, high=(*none[1:], missing), value=value)


def _masked(allowed: ir.Value | None, mask: ir.Value | None, query: ir.Value) -> ir.Value | None:
    """Combines both masks into one."""
    if allowed is None or mask is None:
        return mask if allowed is None else allowed
    if dtype(mask) == np.bool_:
        return emit(AndOp, allowed, mask)
    return emit(SelectOp, allowed, cast(mask, dtype(query)), scalar(-np.inf, query))
