"""Outputs of graphs that share memory with other tensors: torch makes these views of the results of compiled pieces."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import torch

from .piece import is_dense


def separate_views(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Gives each output that is a view a node of its own, which no piece may contain.

    These are views of inputs, several views of one value, and views with gaps between their elements, because a piece
    returns each tensor in dense memory of its own.

    Returns:
        The nodes.
    """
    end = graph.output_node()
    bases = {node: _base(node) for node in end.all_input_nodes}
    counts = Counter(bases.values())
    made: dict[torch.fx.Node, torch.fx.Node] = {}
    for node, base in bases.items():
        if node is base or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        if base.op == "placeholder" or counts[base] > 1 or not is_dense(node.meta["val"]):
            end.replace_input_with(node, _copied(node, base, made))
            _erase_unused(node)
    return list(made.values())


def _base(node: torch.fx.Node) -> torch.fx.Node:
    """Returns the node that allocates the memory of a node's result."""
    while (source := _viewed(node)) is not None:
        node = source
    return node


def _viewed(node: torch.fx.Node) -> torch.fx.Node | None:
    """Returns the node whose memory a node's result shares; None if the memory is new."""
    source: Any = node.args[0] if node.op == "call_function" and node.args else None
    if not isinstance(source, torch.fx.Node):
        return None
    if node.target is operator.getitem:
        return source if _viewed(source) is not None else None
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    alias = node.target._schema.arguments[0].alias_info
    return source if alias is not None and not alias.is_write else None


def _copied(node: torch.fx.Node, base: torch.fx.Node, made: dict[torch.fx.Node, torch.fx.Node]) -> torch.fx.Node:
    """Copies a view, and the views between it and its base."""
    if node is base:
        return base
    if node not in made:
        source = _viewed(node)
        assert source is not None
        inner = _copied(source, base, made)
        with node.graph.inserting_before(node):
            made[node] = node.graph.node_copy(node, lambda item: inner if item is source else item)
    return made[node]


def _erase_unused(node: torch.fx.Node | None) -> None:
    while node is not None and not node.users:
        source = _viewed(node)
        if source is not None:
            node.graph.erase_node(node)
        node = source
