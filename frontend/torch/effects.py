"""Effects of ops in graphs of AOTAutograd, which orders them by tokens."""

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
