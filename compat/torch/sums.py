"""Sums of products in a graph of torch, each of which becomes one product.

PyTorch unrolls recurrent layers, whose weights then have a gradient of each time step:

    add(add(mm(a, x), mm(b, y)), mm(c, z)) --> mm(cat([a, b, c], 1), cat([x, y, z], 0))

Sums of sums over rows, which are gradients of biases, are treated alike.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_Node = torch.fx.Node
_ATEN = torch.ops.aten
_TRANSPOSES = {_ATEN.t.default: (), _ATEN.permute.default: ([1, 0],), _ATEN.transpose.int: (0, 1)}
"""The ops that exchange the two dimensions of a matrix, with their further arguments."""
_FEWEST = 4
"""The fewest terms that are merged: fewer gain less than the copies of their operands take."""


def merge_sums(graph: torch.fx.Graph) -> int:
    """Makes one product of each sum of products whose results are larger than their operands, likewise sums of rows.

    Returns:
        The number of sums.
    """
    for node in graph.nodes:
        inner = _turned(node)
        outer = None if inner is None else _turned(inner)
        if outer is not None:
            node.replace_all_uses_with(outer)
    graph.eliminate_dead_code()
    joined: dict[tuple[Any, ...], _Node] = {}
    merged = 0
    for root in [node for node in graph.nodes if _is_add(node) and not _is_inner(node)]:
        terms = _terms(root)
        groups: dict[Any, list[_Node]] = {}
        for term in terms:
            groups.setdefault(_key(term), []).append(term)
        found = {key: group for key, group in groups.items() if key is not None and len(group) >= _FEWEST}
        if not found:
            continue
        merged += len(found)
        rest = [term for term in terms if _key(term) not in found]
        with graph.inserting_before(root):
            total, *others = [*(_merged(group, joined) for group in found.values()), *rest]
            for term in others:
                total = _call(root, _ATEN.add.Tensor, total, term)
        root.replace_all_uses_with(total)
    if merged:
        graph.eliminate_dead_code()
    return merged


def _is_add(node: _Node) -> bool:
    return node.target is _ATEN.add.Tensor and not node.kwargs and all(isinstance(item, _Node) for item in node.args)


def _is_inner(node: _Node) -> bool:
    """Returns whether a sum is only a term of another one of the same shape."""
    (user, *more) = list(node.users) or [node]
    return not more and user is not node and _is_add(user) and _shape(user) == _shape(node)


def _terms(root: _Node) -> list[_Node]:
    """The terms of a sum of sums, in the order of the graph."""
    found, pending = [], [root]
    while pending:
        node = pending.pop()
        if node is root or (_is_add(node) and _is_inner(node)):
            pending += [item for item in reversed(node.args) if isinstance(item, _Node)]
        else:
            found.append(node)
    return found


def _key(term: _Node) -> Any:
    """The kind of a term, which terms that are merged have in common; None for terms that are not."""
    if len(term.users) != 1 or any(isinstance(size, torch.SymInt) for size in _shape(term)):
        return None
    operands = term.all_input_nodes
    if term.target is _ATEN.view.default:
        inner = _key(operands[0])
        return None if inner is None else ("view", _shape(term), inner)
    if term.target is _ATEN.mm.default and len(operands) == 2:
        rows, inner = _shape(operands[0])
        columns = _shape(term)[1]
        return ("mm", rows, columns, term.meta["val"].dtype) if inner * (rows + columns) <= rows * columns else None
    if term.target is _ATEN.sum.dim_IntList and not term.kwargs and list(term.args[1]) == [0]:  # type: ignore[arg-type]
        return ("sum", _shape(operands[0])[1:], term.args[2:], term.meta["val"].dtype)
    return None


def _merged(group: Sequence[_Node], joined: dict[tuple[Any, ...], _Node]) -> _Node:
    """One op in place of several, at the insertion point."""
    last = group[-1]
    if last.target is _ATEN.view.default:
        whole = _merged([term.all_input_nodes[0] for term in group], joined)
        return _call(last, _ATEN.view.default, whole, list(_shape(last)))
    if last.target is _ATEN.sum.dim_IntList:
        whole = _joined([term.all_input_nodes[0] for term in group], 0, last, joined)
        return _call(last, _ATEN.sum.dim_IntList, whole, *last.args[1:])
    left, right = zip(*(term.args for term in group), strict=True)
    return _call(last, _ATEN.mm.default, _joined(left, 1, last, joined), _joined(right, 0, last, joined))


def _joined(nodes: Any, axis: int, like: _Node, joined: dict[tuple[Any, ...], _Node]) -> _Node:
    """Tensors along a dimension; that of transposed ones is the transpose of one along the other dimension."""
    turned = [_turned(node) for node in nodes]
    if all(node is not None for node in turned):
        return _call(like, _ATEN.permute.default, _joined_plain(turned, 1 - axis, like, joined), [1, 0])
    return _joined_plain(nodes, axis, like, joined)


def _joined_plain(nodes: Any, axis: int, like: _Node, joined: dict[tuple[Any, ...], _Node]) -> _Node:
    key = (*nodes, axis)
    if key not in joined:
        joined[key] = _call(like, _ATEN.cat.default, list(nodes), axis)
    return joined[key]


def _turned(node: _Node) -> _Node | None:
    """The matrix that a node transposes."""
    more = _TRANSPOSES.get(node.target)  # type: ignore[arg-type]
    return node.all_input_nodes[0] if more is not None and tuple(node.args[1:]) == more else None


def _call(like: _Node, target: Callable[..., Any], *args: Any) -> _Node:
    """Adds a call to the graph, with its value and with the origin of another node."""
    made = like.graph.call_function(target, args)
    origin = {key: like.meta[key] for key in ("nn_module_stack", "stack_trace", "seq_nr") if key in like.meta}
    made.meta = {**origin, "val": target(*torch.fx.node.map_arg(args, lambda node: node.meta["val"]))}
    return made


def _shape(node: _Node) -> tuple[Any, ...]:
    return tuple(node.meta["val"].shape)
