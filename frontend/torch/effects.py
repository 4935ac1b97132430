"""Parts of graphs that have no meaning for compiled code: assertions, and options of other compilers."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import operator

import torch
from torch._higher_order_ops.effects import with_effects

from .importer import ASSERTIONS


def drop_assertions(graph: torch.fx.Graph) -> None:
    """Erases assertions about contents, which compiled code does not check, from a graph with tokens.

    ```
    made = with_effects(token, aten._linalg_check_errors.default, info, ...); next = made[0]
    // -->
    next = token
    ```
    """
    for node in list(graph.nodes):
        if node.target is not with_effects or str(node.args[1]) not in ASSERTIONS:
            continue
        for user in list(node.users):
            if user.target is operator.getitem and user.args[1] == 0:
                user.replace_all_uses_with(node.args[0])
                graph.erase_node(user)
        if not node.users:
            graph.erase_node(node)


_QUANTIZED = (torch.ops.higher_order.invoke_quant, torch.ops.higher_order.invoke_quant_packed)


def drop_options(graph: torch.fx.Graph) -> None:
    """Erases the options of graphs that another compiler may compute in low precision.

    ```
    options = InvokeQuant(...); made = invoke_quant_packed(graph, x, scheme="nf4", quant_options=options)
    // -->
    made = invoke_quant_packed(graph, x)
    ```
    """
    for target in _QUANTIZED:
        for node in graph.find_nodes(op="call_function", target=target):
            options = [item for item in node.kwargs.values() if isinstance(item, torch.fx.Node)]
            node.kwargs = {}
            for item in options:
                if not item.users:
                    graph.erase_node(item)
