"""Looking over a whole model before importing it: which names are read, and whether every operator is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

from ..errors import UnsupportedError
from .definitions import is_defined
from .functions import FunctionTable
from .model import normal_domain
from .registry import handler_for


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that are attributes of a node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g


def names_read(graph: onnx.GraphProto) -> set[str]:
    """Every name that a graph returns, or that its nodes or inner graphs read."""
    names = {output.name for output in graph.output}
    for node in graph.node:
        names.update(node.input)
        for inner in inner_graphs(node):
            names |= names_read(inner)
    return names


def check_supported(nodes: Iterable[onnx.NodeProto], versions: Mapping[str, int], functions: FunctionTable) -> None:
    """Checks that every operator of a model can be imported.

    Raises:
        UnsupportedError: some cannot; the message names all of them.
    """
    missing: dict[str, list[str]] = {}
    for operator, name in _unsupported(nodes, versions, functions, set()):
        missing.setdefault(operator, []).append(name)
    if not missing:
        return
    parts = [f"{operator} ({_some(names)})" for operator, names in sorted(missing.items())]
    raise UnsupportedError(f"uses operators that are not supported: {'; '.join(parts)}")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'nodes' if len(names) > 1 else 'node'} {', '.join(names[:3])}{more}"


def _unsupported(
    nodes: Iterable[onnx.NodeProto],
    versions: Mapping[str, int],
    functions: FunctionTable,
    seen: set[tuple[str, str, str]],
) -> Iterator[tuple[str, str]]:
    for index, node in enumerate(nodes):
        function = functions.get(node)
        if function is not None:
            if function.key not in seen:
                seen.add(function.key)
                yield from _unsupported(function.proto.node, function.versions, functions, seen)
            continue
        domain = normal_domain(node.domain)
        opset = versions.get(domain)
        if opset is None or not _is_supported(domain, node.op_type, opset):
            version = f" of opset {opset}" if opset is not None else ", whose domain the model does not import"
            operator = f"{domain}.{node.op_type}" if domain else node.op_type
            yield operator + version, node.name or f"{node.op_type}_{index}"
        for graph in inner_graphs(node):
            yield from _unsupported(graph.node, versions, functions, seen)


def _is_supported(domain: str, op_type: str, opset: int) -> bool:
    """Whether an operator has an importer, or a definition (whose own operators are known when it is inlined)."""
    return handler_for(domain, op_type, opset) is not None or (domain == "" and is_defined(op_type, opset))
