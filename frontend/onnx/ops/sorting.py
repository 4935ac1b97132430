"""Sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import AndOp, GreaterEqualOp, LessEqualOp
from ....dialects.stepwell.sorting import TopKOp
from ...build import cast, dims_of, emit, integers, known_dim, normal_axis, rank, reshaped, scalar, transposed
from ...errors import NeedsShapes, NodeError
from ...index_arithmetic import elements
from ..nodes.node import Node
from ..nodes.registry import imports
from ..nodes.scope import Guard


@imports("TopK")
def top_k_by_attribute(node: Node, input: ir.Value) -> tuple[ir.Value, ir.Value]:
    """TopK with the number as an attribute (opset 1)."""
    return _top_k(node, input, node.attribute("k"))


@imports("TopK", since=10)
def top_k_by_input(node: Node, input: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value]:
    """TopK with the number as an input (opset 10), for the greatest or the least elements (opset 11)."""
    try:
        counts = node.integers(k, "K")
    except NeedsShapes:
        if node.importer.may_require_contents(k):
            raise
        return _first_of_all(node, input, k)
    if len(counts) != 1:
        raise NodeError(f"input 'K' must have one element, but has {len(counts)}")
    return _top_k(node, input, counts[0])


def _first_of_all(node: Node, input: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Sorts all elements, and returns the first ones, whose number is computed at run time."""
    axis = normal_axis(node.attribute("axis", -1), rank(input))
    extent = known_dim(input, axis, "the number of elements")
    results = _top_k(node, input, extent)
    number = cast(reshaped(k, integers([])), np.int64)
    for result in results:
        node.importer.counts.add(result, axis, number)
    if node.scope.is_checked:
        most = reshaped(dims_of(input, axis, axis + 1), integers([]))
        fits = emit(AndOp, emit(GreaterEqualOp, number, scalar(0, number)), emit(LessEqualOp, number, most))
        node.scope.guards.append(Guard(fits, f"'{node.name}' (TopK) cannot take that many elements: 'K' is too large"))
    return results


def _top_k(node: Node, input: ir.Value, k: Any) -> tuple[ir.Value, ir.Value]:
    """Values and indices; always sorted, which is valid even if no order is requested."""
    node.ignore("sorted")
    axis = normal_axis(node.attribute("axis", -1), rank(input))
    order = [*(other for other in range(rank(input)) if other != axis), axis]
    back = [order.index(other) for other in range(rank(input))]
    rows = transposed(input, order)
    indices = emit(TopKOp, rows, k=k, largest=bool(node.attribute("largest", 1)))
    values = elements(rows, indices, rank(rows) - 1)
    return transposed(values, back), transposed(indices, back)
