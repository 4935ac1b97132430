"""Inspects a whole model before the import: which names are read, and whether every operator is supported.

Obstacles to native code are reported as a list of `Fallback`, one for each node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import onnx

from ...runtime.host.fallback import Fallback
from ..errors import UnsupportedError
from ..imported import ModelInfo
from .nodes.definitions import is_defined
from .nodes.functions import FunctionTable
from .nodes.lists import SEQUENCE_OPERATORS
from .nodes.registry import handler_for
from .reading.inferred import inferred_types, shape_of_type
from .reading.model import Model, opsets, type_text
from .reading.names import node_name, normal_domain

_MADE_FOR_ONE_PROCESSOR = (
    "ONNX Runtime optimised and saved the model for one kind of processor: give the original model, "
    "or save it at the level ORT_ENABLE_EXTENDED"
)


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that are attributes of a node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g


def node_count(graph: onnx.GraphProto) -> int:
    """The number of nodes in a graph and its inner graphs, except constants."""
    own = sum(node.op_type != "Constant" for node in graph.node)
    return own + sum(node_count(inner) for node in graph.node for inner in inner_graphs(node))


def has_sequences(node: onnx.NodeProto) -> bool:
    """Returns whether a node, or a node in its graphs, produces or reads sequences."""
    if node.op_type in SEQUENCE_OPERATORS and not normal_domain(node.domain):
        return True
    return any(has_sequences(inner) for graph in inner_graphs(node) for inner in graph.node)


def names_read(graph: onnx.GraphProto) -> set[str]:
    """Every name that a graph returns, or that its nodes or inner graphs read."""
    names = {output.name for output in graph.output}
    for node in graph.node:
        names.update(node.input)
        for inner in inner_graphs(node):
            names |= names_read(inner)
    return names


_WITH_SETTINGS = ("Clip", "DequantizeLinear", "OneHot", "Pad", "QuantizeLinear", "Range", "Resize", "Upsample")


def settings_read(graph: onnx.GraphProto) -> set[str]:
    """The names that nodes of a graph, or of its inner graphs, read as settings such as scale factors or bounds."""
    names = {name for node in graph.node if node.op_type in _WITH_SETTINGS for name in node.input[1:]}
    return names.union(*(settings_read(inner) for node in graph.node for inner in inner_graphs(node)))


def reads(node: onnx.NodeProto) -> list[str]:
    """The values that a node reads: its inputs, and values that its graphs take from enclosing graphs."""
    names = dict.fromkeys(name for name in node.input if name)
    for graph in inner_graphs(node):
        names |= dict.fromkeys(sorted(_taken_from_around(graph)))
    return list(names)


def _taken_from_around(graph: onnx.GraphProto) -> set[str]:
    """The names that a graph reads and does not define. A body may use the same name as an output of its node."""
    names = {output.name for output in graph.output}.union(*map(reads, graph.node))
    weights = (*graph.initializer, *(tensor.values for tensor in graph.sparse_initializer))
    own = {item.name for item in (*graph.input, *weights)}.union(*(node.output for node in graph.node))
    return {name for name in names if name and name not in own}


def live_nodes(nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]) -> list[int]:
    """The indices of the nodes that the wanted values depend on."""
    needed, live = set(wanted), []
    for index in reversed(range(len(nodes))):
        if needed.intersection(nodes[index].output):
            live.append(index)
            needed.update(reads(nodes[index]))
    return live[::-1]


def needed_nodes(graph: onnx.GraphProto) -> list[tuple[int, onnx.NodeProto]]:
    """The nodes that a graph's outputs depend on, with their indices; other nodes need not be supported."""
    live = live_nodes(graph.node, (output.name for output in graph.output))
    return [(index, graph.node[index]) for index in live]


def check_supported(graph: onnx.GraphProto, versions: Mapping[str, int], functions: FunctionTable) -> None:
    """Checks that every operator that a model's outputs depend on can be imported.

    Raises:
        UnsupportedError: some cannot be; the message names all of them.
    """
    missing: dict[str, list[str]] = {}
    for found in _unsupported(needed_nodes(graph), versions, functions, set()):
        version = "" if found.opset is not None else ", whose domain the model does not import"
        missing.setdefault(found.operator + version, []).append(found.node)
    if not missing:
        return
    parts = [f"{operator} ({_some(names)})" for operator, names in sorted(missing.items())]
    raise UnsupportedError(f"uses operators that are not supported: {'; '.join(parts)}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'nodes' if len(names) > 1 else 'node'} {', '.join(names[:3])}{more}"


def _unsupported(
    nodes: Iterable[tuple[int, onnx.NodeProto]],
    versions: Mapping[str, int],
    functions: FunctionTable,
    seen: set[tuple[str, str, str]],
) -> Iterator[Fallback]:
    for index, node in nodes:
        function = functions.get(node)
        if function is not None:
            if function.key not in seen:
                seen.add(function.key)
                yield from _unsupported(enumerate(function.proto.node), function.versions, functions, seen)
            continue
        domain = normal_domain(node.domain)
        opset = versions.get(domain)
        if opset is None or not _is_supported(domain, node.op_type, opset):
            yield _unknown(node, domain, opset, index)
        for graph in inner_graphs(node):
            yield from _unsupported(needed_nodes(graph), versions, functions, seen)


def _unknown(node: onnx.NodeProto, domain: str, opset: int | None, index: int) -> Fallback:
    name = node_name(node, index)
    if opset is None:
        reason = "the model does not import the operator's domain"
        return Fallback(name, node.op_type, domain, None, reason, f"add '{domain}' to the model's opset_import")
    advice = _MADE_FOR_ONE_PROCESSOR if domain == "com.microsoft.nchwc" else ""
    return Fallback(name, node.op_type, domain, opset, "there is no native code for the operator", advice)


def with_types(found: Fallback, inputs: Iterable[str], types: Mapping[str, onnx.TypeProto]) -> Fallback:
    """Adds the types and shapes of a node's inputs to its record."""
    kinds = [types.get(name) for name in inputs if name]
    return replace(found, dtypes=tuple(map(type_text, kinds)), shapes=tuple(map(shape_of_type, kinds)))


def unknown_operators(model: Model, types: Mapping[str, onnx.TypeProto] | None = None) -> dict[int, Fallback]:
    """The nodes that cannot be compiled whatever the shapes of the inputs, by their index in the graph.

    A node that contains graphs or calls a function counts if a node in them does. Obstacles that need the shapes of the
    inputs (types, attributes, sizes) are not included: see `diagnosis`.

    Args:
        model: the model.
        types: types of its values; if None, they are inferred as soon as such a node is found.
    """
    functions, versions = FunctionTable(model), opsets(model.proto.opset_import, model.name)
    found: dict[int, Fallback] = {}
    for index, node in enumerate(model.proto.graph.node):
        first = next(_unsupported([(0, node)], versions, functions, set()), None)
        if first is None:
            continue
        types = inferred_types(model) if types is None else types
        domain = normal_domain(node.domain)
        own = node.op_type == first.op_type and domain == first.domain
        reason = first.reason if own else f"it holds {first.op_type} '{first.node}': {first.reason}"
        name = node_name(node, index)
        whole = Fallback(name, node.op_type, domain, versions.get(domain), reason, first.suggestion)
        found[index] = with_types(whole, node.input, types)
    return found


def _is_supported(domain: str, op_type: str, opset: int) -> bool:
    """Returns whether an operator has an importer, or a definition (whose operators are checked when it is inlined)."""
    return handler_for(domain, op_type, opset) is not None or is_defined(op_type, opset, domain)


def check_native(info: ModelInfo) -> None:
    """Checks that inputs and outputs are tensors that code can be compiled for.

    Raises:
        UnsupportedError: one is not.
    """
    for what, values in (("input", info.inputs), ("output", info.outputs)):
        for value in values:
            if value.kind and not value.is_native:
                kind = "string" if value.dtype == object and value.kind == "tensor" else value.kind
                text = value.dtype if value.dtype != object else kind
                raise UnsupportedError(f"{what} '{value.name}' has the type {text}, which is not supported")
