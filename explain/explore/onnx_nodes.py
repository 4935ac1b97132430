"""The nodes of an ONNX file as written there: operator, attributes, and the names of inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ...frontend.onnx.reading.names import node_name
from ...support.formats import format_of

_LISTED = 16
"""Maximum number of elements of an attribute that the page shows."""


def nodes_of(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the nodes of a file by name, including those in bodies of control flow; empty for other formats."""
    if format_of(path) != "onnx":
        return {}
    model = onnx.load(str(path), load_external_data=False)
    opsets = {each.domain: each.version for each in model.opset_import}
    return {name: _described(node, opsets) for name, node in _nodes(model.graph)}


def _nodes(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    for position, node in enumerate(graph.node):
        yield node_name(node, position), node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body)


def _described(node: onnx.NodeProto, opsets: dict[str, int]) -> dict[str, Any]:
    domain = f"{node.domain}." if node.domain else ""
    opset = f" of opset {opsets[node.domain]}" if node.domain in opsets else ""
    return {
        "operator": f"{domain}{node.op_type}{opset}",
        "attributes": {each.name: _text(each) for each in node.attribute},
        "inputs": list(node.input),
        "outputs": list(node.output),
    }


def _text(attribute: onnx.AttributeProto) -> str:
    """Formats an attribute's value; tensors and graphs are shown by their type."""
    if attribute.ref_attr_name:
        return f"the function's attribute {attribute.ref_attr_name}"
    return _shown(onnx.helper.get_attribute_value(attribute))


def _shown(value: Any) -> str:
    if isinstance(value, onnx.TensorProto):
        return _tensor(value)
    if isinstance(value, onnx.GraphProto):
        return f"graph '{value.name}' of {len(value.node)} nodes"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return f"{value:.7g}"  # the precision of a float attribute
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, onnx.SparseTensorProto | onnx.TypeProto):
        return type(value).__name__.removesuffix("Proto").lower()
    shown = [_shown(item) for item in list(value)[:_LISTED]]
    more = [f"... ({len(value)} in all)"] if len(value) > _LISTED else []
    return f"[{', '.join(shown + more)}]"


def _tensor(value: onnx.TensorProto) -> str:
    shape = "x".join(map(str, value.dims)) or "scalar"
    kind = onnx.TensorProto.DataType.Name(value.data_type).lower()
    if math.prod(value.dims) > _LISTED or value.data_location == onnx.TensorProto.EXTERNAL:
        return f"{kind} {shape}"
    numbers = np.asarray(numpy_helper.to_array(value)).reshape(-1).tolist()
    return f"{kind} {shape}: {', '.join(map(_shown, numbers))}"
