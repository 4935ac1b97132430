"""Removes control flow: replaces a node by one branch, or by one iteration of a loop."""

from __future__ import annotations

import onnx
from onnx import helper

from .onnx_graph import forget_shapes, graphs_in, rename_in_node


def flattened(model: onnx.ModelProto, index: int, body: int) -> onnx.ModelProto | None:
    """Replaces a node by one of its bodies.

    Inputs of the body become the values before the first iteration, or new inputs.

    Returns:
        None if an input of the body has neither, because its type is unknown.
    """
    nodes = list(model.graph.node)
    node, graph = nodes[index], graphs_in(nodes[index])[body]
    names = {value.name: _unique(node, value.name) for value in graph.input}
    given = _initial_values(node, graph)
    for value in graph.input:
        if given.get(value.name):
            names[value.name] = given[value.name]
        elif value.type.WhichOneof("value") is None:
            return None
        else:
            model.graph.input.append(onnx.ValueInfoProto(name=names[value.name], type=value.type))
    for inner in graph.node:
        names.update((name, _unique(node, name)) for name in inner.output if name)
    for tensor in graph.initializer:
        names[tensor.name] = _unique(node, tensor.name)
        model.graph.initializer.append(tensor)
        model.graph.initializer[-1].name = names[tensor.name]
    results = [value.name for value in graph.output][1 if node.op_type == "Loop" else 0 :]
    moved = []
    for inner in graph.node:
        moved.append(onnx.NodeProto())
        moved[-1].CopyFrom(inner)
        rename_in_node(moved[-1], names)
    for inside, outside in zip(results, node.output, strict=False):
        if outside:
            moved.append(helper.make_node("Identity", [names.get(inside, inside)], [outside]))
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:index], *moved, *nodes[index + 1 :]])
    forget_shapes(model)
    return model


def _initial_values(node: onnx.NodeProto, graph: onnx.GraphProto) -> dict[str, str]:
    """Returns the initial values of a body's inputs as far as the node has them; not the slices of scanned values."""
    if node.op_type == "Loop":
        # The trip count and the condition differ from the iteration number and condition in the body.
        return dict(zip([value.name for value in graph.input][2:], node.input[2:], strict=False))
    if node.op_type == "Scan":
        scanned = next(item.i for item in node.attribute if item.name == "num_scan_inputs")
        kept = len(node.input) - scanned
        return dict(zip([value.name for value in graph.input][:kept], node.input[:kept], strict=False))
    return {}


def _unique(node: onnx.NodeProto, name: str) -> str:
    return f"{node.output[0] or node.name}/{name}"
