"""What domains and nodes are called, by whichever name a file has for them."""

from __future__ import annotations

import onnx


def normal_domain(domain: str) -> str:
    """The one spelling of a domain that has two."""
    return "" if domain == "ai.onnx" else domain


def node_name(node: onnx.NodeProto, position: int) -> str:
    """The name of a node; of one without a name its operator and its position in its graph."""
    return node.name or f"{node.op_type}_{position}"
