"""Attention as one operator, as ONNX has it since opset 23."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import AndOp, SelectOp
from ....dialects.stepwell.movement import DynamicReshapeOp
from ....dialects.stepwell.normalization import AttentionOp
from ...errors import UnsupportedError
from ..build import cast, dtype, emit, integers, joined, known_dim, rank, scalar, transposed
from ..node import Node
from ..registry import imports

_HEADS_FIRST = (0, 2, 1, 3)


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

    What is kept from earlier calls comes before key and value, and both together are the second and third output.
    """
    if lengths is not None or node.attribute("softcap"):
        raise UnsupportedError(
            "has lengths of its own per batch, or limits its scores (softcap), which is not supported"
        )
    is_flat = rank(query) == 3
    query = _with_heads(query, node.attribute("q_num_heads"))
    key, value = (_with_heads(item, node.attribute("kv_num_heads")) for item in (key, value))
    key = key if past_key is None else joined([past_key, key], 2)
    value = value if past_value is None else joined([past_value, value], 2)
    if node.attribute("is_causal"):
        mask = _causal(node, query, key, past_key, mask)
    scale = node.attribute("scale") or known_dim(query, 3, "the depth of a head") ** -0.5
    result = emit(AttentionOp, query, key, value, mask, scale=scale)
    if is_flat:
        result = emit(DynamicReshapeOp, transposed(result, _HEADS_FIRST), integers([0, 0, -1]))
    return result, key, value


def _with_heads(value: ir.Value, heads: int | None) -> ir.Value:
    """[batch, length, heads * depth] --> [batch, heads, length, depth]; what has four dimensions stays as it is."""
    if rank(value) == 4:
        return value
    if heads is None:
        raise UnsupportedError("does not say how many heads it has (q_num_heads, kv_num_heads)")
    return transposed(emit(DynamicReshapeOp, value, integers([0, 0, heads, -1])), _HEADS_FIRST)


def _causal(node: Node, query: ir.Value, key: ir.Value, past: ir.Value | None, mask: ir.Value | None) -> ir.Value:
    """The mask that lets each place see those up to its own, and what another mask lets through."""
    rows, columns = (known_dim(item, 2, "the lengths of query and key, for a causal mask,") for item in (query, key))
    before = 0 if past is None else known_dim(past, 2, "the length of what is kept")
    triangle = node.importer.weight(f"{node.name}.causal", np.tri(rows, columns, before, dtype=np.bool_))
    if mask is None:
        return triangle
    if dtype(mask) == np.bool_:
        return emit(AndOp, triangle, mask)
    return emit(SelectOp, triangle, cast(mask, dtype(query)), scalar(-np.inf, query))
