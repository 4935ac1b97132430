"""Strides of the values in a graph, which the ops that PyTorch runs may make other than those that were captured."""

# pyright: reportMissingImports=false
from __future__ import annotations

import torch

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
"""Ops that PyTorch refuses if strides differ from those that were captured."""


def accept_any_strides(graph: torch.fx.Graph) -> None:
    """Lets the ops of a graph take values of any strides: its views become reshapes."""
    for target in _VIEWS:
        for node in graph.find_nodes(op="call_function", target=target):
            node.target = torch.ops.aten.reshape.default
