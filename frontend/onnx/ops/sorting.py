"""Sorting."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.sorting import TopKOp
from ...build import emit, normal_axis, rank, transposed
from ...errors import NodeError
from ...index_arithmetic import elements
from ..nodes.node import Node
from ..nodes.registry import imports


@imports("TopK")
def top_k_by_attribute(node: Node, input: ir.Value) -> tuple[ir.Value, ir.Value]:
    """TopK with the number as an attribute (opset 1)."""
    return _top_k(node, input, node.attribute("k"))


@imports("TopK", since=10)
def top_k_by_input(node: Node, input: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value]:
    """TopK with the number as an input (opset 10), for the greatest or the least elements (opset 11)."""
    counts = node.integers(k, "K")
    if len(counts) != 1:
        raise NodeError(f"input 'K' must have one element, but has {len(counts)}")
    return _top_k(node, input, counts[0])


def _top_k(node: Node, input: ir.Value, k: int) -> tuple[ir.Value, ir.Value]:
    """Values and indices; always sorted, which is valid even if no order is requested."""
    node.ignore("sorted")
    axis = normal_axis(node.attribute("axis", -1), rank(input))
    order = [*(other for other in range(rank(input)) if other != axis), axis]
    back = [order.index(other) for other in range(rank(input))]
    rows = transposed(input, order)
    indices = emit(TopKOp, rows, k=k, largest=bool(node.attribute("largest", 1)))
    values = elements(rows, indices, rank(rows) - 1)
    return transposed(values, back), transposed(indices, back)
