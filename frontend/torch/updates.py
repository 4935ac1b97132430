"""Updates of a graph's arguments in place, so that only the elements that a model writes into a cache are moved."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
_MARK = "stepwell_in_place"


def _put_slice(base: torch.Tensor, source: torch.Tensor, *where: Any, **named: Any) -> torch.Tensor:
    _aten.slice.Tensor(base, *where, **named).copy_(source)
    return base


def _put_selected(base: torch.Tensor, source: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    base.select(dim, index).copy_(source)
    return base


_IN_PLACE: dict[Any, Callable[..., torch.Tensor]] = {
    _aten.index_put.default: _aten.index_put_.default,
    _aten._unsafe_index_put.default: _aten.index_put_.default,
    _aten.index_copy.default: _aten.index_copy_.default,
    _aten.index_add.default: _aten.index_add_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter.value: _aten.scatter_.value,
    _aten.scatter_add.default: _aten.scatter_add_.default,
    _aten.slice_scatter.default: _put_slice,
    _aten.select_scatter.default: _put_selected,
}
"""Ops that change a part of their first argument, and functions that do so in place and return it."""

_PARTS: dict[Any, Any] = {
    _aten.slice.Tensor: _aten.slice_scatter.default,
    _aten.select.int: _aten.select_scatter.default,
}
"""Views of a part, and the ops that write it."""


def is_in_place(node: torch.fx.Node) -> bool:
    """Returns whether a node is one that `update_in_place` made."""
    return _MARK in node.meta


def update_in_place(graph: torch.fx.Graph) -> int:
    """Makes torch write parts of arguments in place; returns the number of arguments.

    Applies if the ops that update an argument are the only ones that read what they update: nothing that is read later
    is overwritten.

    ```
    new = index_put(cache, places, rows); read(new); copy_(cache, new)
    // -->
    new = index_put_(cache, places, rows); read(new)
    ```
    """
    found = 0
    for copy in list(graph.find_nodes(op="call_function", target=_aten.copy_.default)):
        chain = [] if copy.users else _updates(copy)
        if not chain:
            continue
        graph.erase_node(copy)
        for node in chain:
            _write(graph, node)
        found += 1
    return found


def _updates(copy: torch.fx.Node) -> list[torch.fx.Node]:
    """The ops that lead from an argument to what is copied into it; [] if other ops read values between them."""
    argument, node = copy.args[:2]
    chain: list[torch.fx.Node] = []
    while isinstance(node, torch.fx.Node) and node is not argument:
        base = node.args[0] if node.target in _IN_PLACE else None
        if base is None or not isinstance(base, torch.fx.Node) or node.args.count(base) > 1:
            return []
        if set(base.users) - {node, copy, *_filling(node)[:1]}:
            return []
        chain.append(node)
        node = base
    return chain if isinstance(node, torch.fx.Node) and node.op == "placeholder" else []


def _filling(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes part(base) and copy(part, source) of scatter(base, copy(part(base), source)), which fills a part."""
    copy = node.args[1]
    if not isinstance(copy, torch.fx.Node) or copy.target is not _aten.copy.default or len(copy.users) > 1:
        return []
    part = copy.args[0]
    if not isinstance(part, torch.fx.Node) or _PARTS.get(part.target) is not node.target or len(part.users) > 1:
        return []
    is_same = (part.args[0], *part.args[1:]) == (node.args[0], *node.args[2:]) and part.kwargs == node.kwargs
    return [part, copy] if is_same else []


def _write(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Makes an update happen in place; there, the source is broadcast and converted as it is written."""
    filling = _filling(node)
    if filling:
        node.update_arg(1, filling[1].args[1])
    for item in reversed(filling):
        graph.erase_node(item)
    node.target = _IN_PLACE[node.target]
    node.meta[_MARK] = True
