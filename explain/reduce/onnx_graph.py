"""Subgraphs of ONNX graphs: some of the nodes, with their free operands as inputs and their results as outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper


@dataclass(frozen=True)
class Facts:
    """Known facts about the values of a model.

    Attributes:
        types: the types of values, as far as they are known.
        contents: small integer tensors (shapes, axes, indices), with their values in a run.
    """

    types: Mapping[str, onnx.TypeProto] = field(default_factory=dict)
    contents: Mapping[str, np.ndarray] = field(default_factory=dict)


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a copy to change."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def graphs_in(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Returns the bodies of a control-flow node."""
    return [graph for attribute in node.attribute for graph in (*attribute.graphs, *_single(attribute))]


def _single(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else []


def uses(node: onnx.NodeProto) -> set[str]:
    """Returns the values that a node reads, including those that its bodies capture."""
    return {name for name in node.input if name}.union(*(captured(graph) for graph in graphs_in(node)))


def captured(graph: onnx.GraphProto) -> set[str]:
    """Returns the values that a graph captures from outside."""
    made = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    made |= {name for node in graph.node for name in node.output}
    read = {value.name for value in graph.output}.union(*(uses(node) for node in graph.node))
    return read - made


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph and of all bodies in it."""
    for node in graph.node:
        yield node
        for inner in graphs_in(node):
            yield from all_nodes(inner)


def all_names(graph: onnx.GraphProto) -> set[str]:
    """Returns the names of all nodes and values of a graph and of the bodies in it."""
    names = {item.name for item in (*graph.input, *graph.output, *graph.initializer)}
    for node in all_nodes(graph):
        names |= {node.name, *node.input, *node.output}
    return names - {""}


def count_nodes(model: onnx.ModelProto) -> int:
    """Returns the number of nodes, including those of bodies and functions."""
    return sum(1 for _ in all_nodes(model.graph)) + sum(len(function.node) for function in model.functions)


def piece(model: onnx.ModelProto, kept: Collection[int], facts: Facts) -> onnx.ModelProto | None:
    """Returns the model with only some of its nodes.

    Values read from other nodes become inputs, or weights if their contents are known and small. Values that other
    nodes read, or that have no reader, become outputs.

    Returns:
        None if the type of a new input or output is unknown.
    """
    graph, chosen = model.graph, set(kept)
    nodes = [node for index, node in enumerate(graph.node) if index in chosen]
    others = [node for index, node in enumerate(graph.node) if index not in chosen]
    made = {name for node in nodes for name in node.output if name}
    read: set[str] = set().union(*(uses(node) for node in nodes))
    outside: set[str] = set().union(*(uses(node) for node in others))
    returned = [value.name for value in graph.output if value.name in made]
    leaving = [
        name
        for node in nodes
        for name in node.output
        if name and name not in returned and (name in outside or not _is_read_later(node, read))
    ]
    made_by_others = {name for node in others for name in node.output if name}
    result = _shell(model)
    result.graph.node.extend(nodes)
    known = {value.name: value for value in (*graph.input, *graph.output)}
    for name in sorted(read & made_by_others):
        if name in facts.contents:
            result.graph.initializer.append(numpy_helper.from_array(facts.contents[name], name))
        elif name in facts.types:
            result.graph.input.append(onnx.ValueInfoProto(name=name, type=facts.types[name]))
        else:
            return None
    for name in [*returned, *leaving]:
        if name not in facts.types and name not in known:
            return None
        kind = facts.types[name] if name in facts.types else known[name].type
        result.graph.output.append(onnx.ValueInfoProto(name=name, type=kind))
    result.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
    result.graph.sparse_initializer.extend(item for item in graph.sparse_initializer if item.values.name in read)
    earlier = {value.name for value in result.graph.input}
    result.graph.input.extend(value for value in graph.input if value.name in read and value.name not in earlier)
    return result if result.graph.output else None


def _is_read_later(node: onnx.NodeProto, read: set[str]) -> bool:
    """Returns whether any output of a node is read."""
    return any(name in read for name in node.output)


def _shell(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model without the contents of its graph."""
    shell = onnx.ModelProto(ir_version=model.ir_version)
    shell.opset_import.extend(model.opset_import)
    shell.functions.extend(model.functions)
    shell.graph.name = model.graph.name or "graph"
    return shell


def tidied(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Removes nodes that no output needs, and unused weights and inputs.

    Returns:
        None if no output is left.
    """
    graph = model.graph
    if not graph.output:
        return None
    needed = {value.name for value in graph.output}
    nodes: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed |= uses(node)
    result = _shell(model)
    result.graph.node.extend(reversed(nodes))
    result.graph.input.extend(value for value in graph.input if value.name in needed)
    result.graph.output.extend(graph.output)
    result.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in needed)
    result.graph.sparse_initializer.extend(item for item in graph.sparse_initializer if item.values.name in needed)
    called = {(node.domain, node.op_type) for node in all_nodes(result.graph)}
    called |= {(node.domain, node.op_type) for function in model.functions for node in function.node}
    del result.functions[:]
    result.functions.extend(item for item in model.functions if (item.domain, item.name) in called)
    return result


def renamed(model: onnx.ModelProto, names: Mapping[str, str], nodes: Iterable[onnx.NodeProto] | None = None) -> None:
    """Renames values of the graph and of its bodies in place; `nodes` restricts it to some nodes."""
    for node in model.graph.node if nodes is None else nodes:
        rename_in_node(node, names)


def rename_in_node(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Renames values in a node and its bodies."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in graphs_in(node):
        for item in (*graph.input, *graph.output, *graph.initializer):
            item.name = names.get(item.name, item.name)
        for inner in graph.node:
            rename_in_node(inner, names)


def neighbourhood(model: onnx.ModelProto, seeds: Collection[int], radius: int) -> list[int]:
    """Returns the nodes at most `radius` edges away from the seeds, which are included."""
    makers = {name: index for index, node in enumerate(model.graph.node) for name in node.output if name}
    edges: dict[int, set[int]] = {index: set() for index in range(len(model.graph.node))}
    for index, node in enumerate(model.graph.node):
        for maker in (makers[name] for name in uses(node) if name in makers):
            edges[index].add(maker)
            edges[maker].add(index)
    reached, front = set(seeds), set(seeds)
    for _ in range(radius):
        front = set().union(*(edges[index] for index in front)) - reached
        reached |= front
    return sorted(reached)


def elements(dims: Sequence[int]) -> int:
    """Returns the number of elements of a tensor."""
    return int(np.prod(dims, dtype=np.int64)) if len(dims) else 1


def forget_shapes(model: onnx.ModelProto) -> None:
    """Drops the shapes of outputs, so that they are inferred."""
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
