"""Canonical names of domains and nodes."""

from __future__ import annotations

import onnx


def normal_domain(domain: str) -> str:
    """The canonical spelling of a domain that has two."""
    return "" if domain == "ai.onnx" else domain


def node_name(node: onnx.NodeProto, position: int) -> str:
    """The name of a node; without one, its operator and its position in its graph."""
    return node.name or f"{node.op_type}_{position}"
